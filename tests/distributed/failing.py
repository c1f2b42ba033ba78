"""Trains nothing; fails as it is told: `failing.py how rank`."""

import os
import signal
import sys
import time

import lucid
import lucid.distributed as dist

how, which = sys.argv[1], int(sys.argv[2])
if how == "late" and int(os.environ["RANK"]) == which:
    time.sleep(1000)  # before the group
dist.init_process_group(timeout=2 if how in ("hang", "stop", "leave", "late", "apart") else 60)
x = lucid.ones(1000)
dist.all_reduce(x)
if how == "apart" and dist.get_rank() != which:
    dist.new_group([0, 1])
again = int(os.environ.get("LUCID_RESTART_COUNT", "0"))
if dist.get_rank() == which and not again:
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "raise":
        raise ValueError("a reason of its own")
    if how == "exit":
        sys.exit(3)
    if how in ("hang", "apart"):
        time.sleep(1000)  # the line that hangs
    if how == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if how == "leave":
        sys.exit()
if how == "sleep":
    time.sleep(1000)
dist.all_reduce(x)
print(f"rank {dist.get_rank()} of {dist.get_world_size()} is well after {again} restarts")
