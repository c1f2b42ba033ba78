"""Processes forked while other threads are at work, and threads that share what one of them changes."""

import ast
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import lucid
from lucid import nn

ROOT = Path(lucid.__file__).resolve().parent.parent
SECONDS = 1.0

FORKS = """
import os, signal, sys, threading
import lucid
from lucid import nn
from lucid.func import functional_call, vmap

g = lucid.Generator().manual_seed(1)
net = nn.Linear(4, 4)
image, kernel = lucid.rand(8, 8, 40, 40), lucid.rand(8, 8, 3, 3)
state = {k: v.clone() for k, v in net.state_dict().items()}
a = lucid.rand(300, 300)
WORK = [
    lambda: lucid.rand(100_000),
    lambda: lucid.rand(100_000, generator=g),
    lambda: functional_call(net, state, lucid.ones(2000, 4)),
    lambda: vmap(lambda x: x * 2)(a),
    lambda: a @ a,
    lambda: nn.functional.conv2d(image, kernel),
]
stop = False
def hammer(work):
    while not stop:
        work()
threads = [threading.Thread(target=hammer, args=(w,), daemon=True) for w in WORK[:int(sys.argv[1])]]
for t in threads:
    t.start()
for number in range(25):
    child = os.fork()
    if not child:
        signal.alarm(20)
        for w in WORK:
            w()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if status:
        print("child", number, "ended with status", status)
        os._exit(1)
stop = True
for t in threads:
    t.join()
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("threads", [2, 6])
def test_forks_while_threads_work(threads):
    command = [sys.executable, "-W", "ignore", "-c", FORKS, str(threads)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert result.stdout == "done\n", result.stdout + result.stderr[-2000:]


def test_every_lock_is_renewed_after_a_fork():
    """Files that make a lock that outlives a call say what happens to it in a child process."""
    made = ("Lock", "RLock", "Condition", "Semaphore", "Event")
    for path in sorted((ROOT / "lucid").rglob("*.py")):
        text = path.read_text()
        tree = ast.parse(text)
        names = {
            n.attr if isinstance(n, ast.Attribute) else n.id
            for n in ast.walk(tree)
            if isinstance(n, ast.Attribute | ast.Name) and isinstance(n.ctx, ast.Load)
        }
        if names & set(made) and path.name != "parallel.py":  # where the lock lives as long as one call
            assert "after_fork" in text, path


# --- threads -----------------------------------------------------------------


def race(*works):
    """Run functions again and again, each in its thread, and raise what any of them raised."""
    errors, end = [], time.monotonic() + SECONDS

    def run(work):
        try:
            while time.monotonic() < end and not errors:
                work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]


@pytest.fixture
def often_switching():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


OPTIMIZERS = {
    "SGD": lambda p: lucid.optim.SGD(p, lr=0.01, momentum=0.9),
    "Adam": lambda p: lucid.optim.Adam(p, lr=0.01),
    "Muon": lambda p: lucid.optim.Muon(p, lr=0.01),
}


@pytest.mark.usefixtures("often_switching")
@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("name", ["SGD", "Adam", "Muon"])
def test_gradients_removed_in_another_thread(name, set_to_none):
    params = [nn.Parameter(lucid.rand(4, 4)) for _ in range(5)]
    optimizer = OPTIMIZERS[name](params)

    def give():
        for p in params:
            p.grad = lucid.ones(4, 4)

    race(give, lambda: optimizer.zero_grad(set_to_none), lambda: optimizer.zero_grad(True), optimizer.step)


@pytest.mark.usefixtures("often_switching")
def test_clipping_and_scaling_gradients_that_another_thread_removes():
    params = [nn.Parameter(lucid.rand(4, 4)) for _ in range(5)]
    optimizer = lucid.optim.SGD(params, lr=0.01)

    def give():
        for p in params:
            p.grad = lucid.ones(4, 4)

    def scaled():
        scaler = lucid.amp.GradScaler()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)

    race(
        give,
        scaled,
        optimizer.zero_grad,
        lambda: nn.utils.clip_grad_norm_(params, 1.0),
        lambda: nn.utils.clip_grad_value_(params, 1.0),
    )


@pytest.mark.usefixtures("often_switching")
def test_a_module_that_another_thread_converts():
    norm = nn.BatchNorm1d(3)
    x = lucid.rand(8, 3)
    race(lambda: norm(x), norm.train, norm.state_dict, lambda: norm.to(lucid.float32), lambda: list(norm.buffers()))
