"""The line between the launcher and the processes it started: who is there, what they wait for, and how they end.

Messages are lines of JSON over a socket. A process says `hello` once and `at` when it waits for others or no longer does, and
before it fails `raised`; when it ends well, `done`. A socket that closes without that belongs to a process that was killed.
The launcher asks `where`, and says `go` when a process that has failed may end all others.
"""

import contextlib
import json
import os
import secrets
import signal
import socket
import threading
import time
from typing import Any

from lucid.distributed import progress
from lucid.forks import after_fork

ADDRESS, TOKEN = "LUCID_LAUNCHER", "LUCID_LAUNCHER_TOKEN"
RANK, SIZE, RESTARTS = "RANK", "WORLD_SIZE", "LUCID_RESTART_COUNT"
BEAT = 0.25  # seconds between looks at what a process is doing
_MOST = 1 << 16  # characters of a message

# By these, launchers say the number of a process; the first that is there counts.
_RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
_LOCAL_RANKS = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")


def own_rank() -> int:
    """The number of this process, as its launcher says."""
    return int(next((os.environ[name] for name in _RANKS if name in os.environ), "0"))


def local_rank() -> int:
    """Its number on this machine."""
    return int(next((os.environ[name] for name in _LOCAL_RANKS if name in os.environ), "0"))


def started(pid: int) -> str | None:
    """When a process of this machine was started, by which it is told from a later one of the same number."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] == b"Z" else fields[19].decode()


class Line:
    """The end of a process that was started."""

    def __init__(self, host: str, port: int, token: str) -> None:
        self.socket = socket.create_connection((host, port), timeout=30)
        self.socket.settimeout(None)
        self.main, self.lock = threading.main_thread().ident or 0, threading.Lock()
        self.may_go = threading.Event()
        pid = os.getpid()
        self.say(token=token, rank=own_rank(), pid=pid, host=socket.gethostname(), started=started(pid))
        after_fork(self.socket.close)  # it closes when this process ends, and not only when its children do
        for work in (self._report, self._listen):
            threading.Thread(target=work, name="lucid.distributed launcher", daemon=True).start()

    def say(self, **message: Any) -> None:
        try:
            with self.lock:
                self.socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass  # `_listen` notices

    def _report(self) -> None:
        said: list[Any] = []
        while True:
            at = list(progress.now)
            if at != said:
                self.say(at=at)
                said = at
            time.sleep(BEAT)

    def _listen(self) -> None:
        with self.socket.makefile("r", encoding="utf-8") as lines:
            for line in lines:
                if "where" in line:
                    self.say(where=progress.where(self.main)[-4:])
                elif "go" in line:
                    self.may_go.set()
        # The launcher is gone: nobody would ever end this process.
        os.kill(os.getpid(), signal.SIGKILL)

    def failed(self, kind: str, why: str) -> None:
        """Say why this process fails, and wait until the launcher has asked the others."""
        self.say(raised=[kind, why[-4000:]])
        self.may_go.wait(5)


def joined() -> Line | None:
    """The line to the launcher, if one started this process."""
    address = os.environ.pop(ADDRESS, None)
    if address is None:
        return None
    host, _, port = address.rpartition(":")
    return Line(host, int(port), os.environ.pop(TOKEN, ""))


class Member:
    """What the launcher knows of a process."""

    def __init__(self, hello: dict[str, Any], connection: socket.socket) -> None:
        self.rank, self.pid, self.host = int(hello["rank"]), int(hello["pid"]), str(hello["host"])
        self.started = hello.get("started")
        self.connection = connection
        self.at: list[Any] = list(progress.now)
        self.since = time.monotonic()  # of `at`
        self.where: list[str] | None = None
        self.raised: list[str] | None = None
        self.done = False
        self.closed: float | None = None  # when its socket closed

    def ask(self, what: str) -> None:
        with contextlib.suppress(OSError):
            self.connection.sendall(json.dumps(what).encode() + b"\n")

    def lives(self) -> bool:
        """Whether it is a process of this machine that has not ended."""
        return self.host == socket.gethostname() and self.started is not None and started(self.pid) == self.started


class Board:
    """The launcher's end: what all processes said."""

    def __init__(self, everywhere: bool) -> None:
        self.token = secrets.token_hex(16)
        self.host = socket.gethostname() if everywhere else "127.0.0.1"
        self.server = socket.create_server(("" if everywhere else self.host, 0))
        self.members: dict[int, Member] = {}
        self.failed: list[Member] = []  # in the order in which it was noticed
        self.final = False  # whether all end now: what wakes up to be ended did not answer in time
        self.changed = threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()

    def environment(self) -> dict[str, str]:
        return {ADDRESS: f"{self.host}:{self.server.getsockname()[1]}", TOKEN: self.token}

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self._follow, args=(connection,), daemon=True).start()

    def _follow(self, connection: socket.socket) -> None:
        member = None
        try:
            with connection.makefile("r", encoding="utf-8") as lines:
                while line := lines.readline(_MOST):
                    message = json.loads(line)
                    if member is None:
                        if not secrets.compare_digest(str(message.get("token")), self.token):
                            return
                        member = Member(message, connection)
                    self._noted(member, message)
        except (OSError, ValueError):
            pass
        finally:
            if member is not None:
                self._closed(member)
            connection.close()

    def _noted(self, member: Member, message: dict[str, Any]) -> None:
        with self.changed:
            self.members[member.rank] = member
            if "at" in message and not self.final:
                member.at, member.since = message["at"], time.monotonic()
            if "where" in message and not self.final:
                member.where = message["where"]
            if "raised" in message:
                member.raised = message["raised"]
                self.failed.append(member)
            member.done = member.done or "done" in message
            self.changed.notify_all()

    def _closed(self, member: Member) -> None:
        with self.changed:
            member.closed = time.monotonic()
            if not member.done and member not in self.failed:
                self.failed.append(member)
            self.changed.notify_all()

    def look_at_clock(self, grace: float) -> None:
        """Note who waits for others past its time limit and cannot say so itself."""
        for member in self.members.values():
            limit = member.at[2]
            if limit and not member.done and time.monotonic() - member.since > limit + grace:
                member.raised = ["waited", f"waited {limit:g} s in {member.at[1]} for other processes"]
                self.failed.append(member)

    def close(self) -> None:
        self.server.close()
        for member in self.members.values():
            member.connection.close()
