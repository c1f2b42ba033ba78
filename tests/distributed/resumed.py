"""Trains and saves each step; when it is told to, a process is killed on the way: `resumed.py folder step-of-death`."""

import os
import signal
import sys

import lucid
import lucid.distributed as dist

folder, death = sys.argv[1], int(sys.argv[2])
dist.init_process_group(timeout=60)
rank, again = dist.get_rank(), int(os.environ["LUCID_RESTART_COUNT"])
lucid.manual_seed(0)
model = lucid.nn.Sequential(lucid.nn.Linear(4, 8), lucid.nn.Tanh(), lucid.nn.Dropout(0.2), lucid.nn.Linear(8, 1))
optimizer = lucid.optim.Adam(model.parameters(), lr=0.01)
data = lucid.randn(64, 4)
lucid.manual_seed(rank + 1)
step = 0
if os.path.isdir(folder):
    found = lucid.load_parallel(folder)
    model.load_state_dict(found["model"])
    optimizer.load_state_dict(found["optimizer"])
    states = found["random"]
    lucid.set_rng_state(states[rank])
    step = found["step"]
assert (step > 0) == bool(again)
while step < 4:
    batch = data[(step * 8 + rank * 4) % 64 :][:4]
    optimizer.zero_grad()
    (model(batch) - batch.sum(1, keepdim=True)).square().mean().backward()
    for p in model.parameters():
        dist.all_reduce(p.grad, "mean")
    optimizer.step()
    step += 1
    if step == death and rank == 1 and not again:
        os.kill(os.getpid(), signal.SIGKILL)
    states = [None] * dist.get_world_size()
    dist.all_gather_object(states, lucid.get_rng_state())
    lucid.save_parallel(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "random": states, "step": step}, folder
    )
if rank == 0:
    print("ended with", [float(p.double().sum().item()).hex() for p in model.parameters()])
