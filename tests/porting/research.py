"""Programs as papers ship them: filters, contrastive and distilled models, equilibria, sparse embeddings."""

import math

import numpy as np

from porting.common import data, initialised, labels, values


def kalman_filter(torch):
    """The likelihood of a linear system by filtering, fitted by LBFGS and by signs of gradients."""
    distributions = torch.distributions
    y = data(torch, 12, 1).cumsum(0) + 0.3 * data(torch, 12, 1, seed=1)
    found = {"walk": torch.tensor(0.1), "noise": torch.tensor(0.2), "A": torch.tensor([[1.0, 0.5], [0.0, 0.8]])}
    found = torch.nn.ParameterDict({k: torch.nn.Parameter(v.double()) for k, v in found.items()})
    seen, unit = torch.tensor([[1.0, 0.0]]).double(), torch.eye(2).double()

    def likelihood():
        q, r = torch.diag(torch.stack([found["walk"].exp(), 0.1 * found.walk.exp()])), found["noise"].exp().view(1, 1)
        mean, cov, total = torch.zeros(2).double(), unit, 0.0
        for t in range(len(y)):
            mean, cov = found["A"] @ mean, found["A"] @ cov @ found["A"].T + q
            spread, error = seen @ cov @ seen.T + r, y[t] - seen @ mean
            gain = torch.linalg.solve(spread, seen @ cov).T
            total = total + distributions.MultivariateNormal(error * 0, covariance_matrix=spread).log_prob(error)
            mean, left = mean + gain @ error, unit - gain @ seen
            cov = left @ cov @ left.mT + gain @ r @ gain.mT
        return -total

    optimizer = torch.optim.LBFGS(found.parameters(), lr=0.5, max_iter=5, line_search_fn="strong_wolfe", history_size=4)
    signs, losses = torch.optim.Rprop(found.parameters(), lr=0.01), []

    def closure():
        optimizer.zero_grad()
        loss = likelihood()
        loss.backward()
        return loss

    for _ in range(2):
        losses.append(optimizer.step(closure).item())
    for _ in range(2):
        losses.append(closure().item())
        signs.step()
    first = torch.autograd.grad(likelihood(), list(found.values()), create_graph=True)
    second = torch.autograd.grad(first[1].sum(), found["A"])[0]
    return {"losses": losses, "names": list(found), "second": second.numpy(), **values(found)}


def contrast(torch):
    """Two views of images: their similarities as logits, a slow copy of the network, and a queue of its codes."""
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self, i, o, stride):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
            self.short = nn.Identity() if i == o else nn.Conv2d(i, o, 1, stride)

        def forward(self, x):
            out = self.norm(self.conv(x))
            out += self.short(x)
            return F.relu(out, inplace=True)

    def network():
        head = [nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(6, 6), nn.BatchNorm1d(6, affine=False), nn.ELU()]
        return initialised(torch, nn.Sequential(Block(3, 3, 1), Block(3, 6, 2), *head))

    net, slow = network(), network()
    slow.load_state_dict(net.state_dict())
    decayed = [p for p in net.parameters() if p.ndim > 1]
    others = [p for p in net.parameters() if p.ndim == 1]
    groups = [{"params": decayed, "weight_decay": 1e-2}, {"params": others}]
    optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda e: (e + 1) / 2 if e < 2 else 0.5 * (1 + math.cos(math.pi * (e - 2) / 5))
    )
    queue, place = F.normalize(data(torch, 6, 8, seed=50), dim=0), torch.zeros(1, dtype=torch.long)
    losses = []
    for step in range(3):
        x = data(torch, 4, 3, 6, 6, seed=step)
        views = torch.flip(x, dims=[3]), 0.9 * x.roll(shifts=(1, 2), dims=(-1, -2))
        z = F.normalize(net(torch.cat(views, 0)), dim=-1)
        same = torch.arange(4).repeat(2)
        same = (same[None] == same[:, None])[~torch.eye(8, dtype=torch.bool)].view(8, -1)
        sims = torch.matmul(z, z.T)[~torch.eye(8, dtype=torch.bool)].view(8, -1)
        logits = torch.cat([sims[same].view(8, -1), sims[~same].view(8, -1)], dim=1) / 0.5
        loss = F.cross_entropy(logits, torch.zeros(8, dtype=torch.long), label_smoothing=0.05)
        with torch.no_grad():
            for a, b in zip(net.parameters(), slow.parameters()):
                b.data = b.data * 0.9 + a.data * (1.0 - 0.9)
            keys = F.normalize(slow(views[1]), dim=-1)
        positive = torch.einsum("nc,nc->n", [z[:4], keys]).unsqueeze(-1)
        negative = torch.einsum("nc,ck->nk", [z[:4], queue.clone().detach()])
        loss = loss + nn.CrossEntropyLoss()(torch.cat([positive, negative], 1) / 0.2, torch.zeros(4).long())
        queue[:, int(place) : int(place) + 4] = keys.T
        place[0] = (place + 4) % 8
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses += [loss.item(), schedule.get_last_lr()[0]]
    hits = logits.topk(3, 1, True, True)[1].t().eq(torch.zeros(1, 8).long().expand(3, 8))[:1].reshape(-1).sum(0)
    return {"losses": losses, "queue": queue.numpy(), "hits": hits.item(), "seen": net[1].norm.running_var.numpy()}


def distilled(torch):
    """A student that learns from hooks on its teacher: focal loss, accumulated gradients, one cycle, two averages."""
    nn, F, swa = torch.nn, torch.nn.functional, torch.optim.swa_utils

    def network(width, seed):
        layers = nn.Linear(6, width), nn.LayerNorm(width), nn.GELU(approximate="tanh"), nn.BatchNorm1d(width)
        return initialised(torch, nn.Sequential(nn.Flatten(), *layers, nn.Linear(width, 4)), seed)

    teacher, student, seen = network(8, 3).eval().requires_grad_(False), network(5, 4), {}
    hooks = [
        teacher[4].register_forward_hook(lambda module, args, out: seen.__setitem__("teacher", out.detach())),
        student[4].register_forward_hook(lambda module, args, out: seen.update(student=out)),
    ]
    adapter = initialised(torch, nn.Linear(5, 8, bias=False), 5)
    Data = torch.utils.data
    x, y = data(torch, 15, 2, 3), labels(torch, 15, 4, 1)
    both = Data.ConcatDataset([Data.TensorDataset(x[:9], y[:9]), Data.TensorDataset(x[9:], y[9:])])
    loader = Data.DataLoader(both, batch_sampler=Data.BatchSampler(Data.SequentialSampler(both), 4, drop_last=False))
    params = list(student.parameters()) + list(adapter.parameters())
    optimizer = torch.optim.AdamW(params, lr=1e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.05, steps_per_epoch=2, epochs=2, pct_start=0.3)
    ema = swa.AveragedModel(student, multi_avg_fn=swa.get_ema_multi_avg_fn(0.9), use_buffers=True)
    mean, scaler, rates = swa.AveragedModel(student), torch.amp.GradScaler("cuda", enabled=False), []
    for _ in range(2):
        for i, (a, b) in enumerate(loader):
            with torch.autocast(device_type="cuda", dtype=torch.float16, enabled=False):
                wanted, got = teacher(a), student(a)
                logs = F.log_softmax(got, -1)
                sure = logs.gather(1, b[:, None]).exp().squeeze(1)
                focal = ((1 - sure) ** 2 * F.nll_loss(logs, b, reduction="none")).mean()
                soft = F.kl_div(
                    F.log_softmax(got / 3, 1), F.log_softmax(wanted / 3, 1), log_target=True, reduction="sum"
                )
                hint = F.mse_loss(adapter(seen["student"]), seen["teacher"])
                loss = (focal + soft / len(a) + 0.1 * hint) / 2
            scaler.scale(loss).backward()
            if (i + 1) % 2 == 0:
                scaler.unscale_(optimizer)
                norm = nn.utils.clip_grad_norm_(params, 1.0, norm_type=float("inf"))
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad(set_to_none=True)
                ema.update_parameters(student)
                schedule.step()
                rates += [norm.item(), *optimizer.param_groups[0]["betas"], schedule.get_last_lr()[0]]
        mean.update_parameters(student)
    swa.update_bn(loader, mean)
    for hook in hooks:
        hook.remove()
    state = optimizer.state_dict()["state"][0]
    shown = [str(state["step"]), repr(state["exp_avg"].shape)]
    return {"rates": rates, "ema": ema(x).detach().numpy(), "mean": mean.eval()(x).detach().numpy(), "shown": shown}


def equilibrium(torch):
    """A layer that is the fixed point of another, whose gradient solves a linear equation."""
    nn, grad = torch.nn, torch.autograd.grad

    class FixedPoint(torch.autograd.Function):
        @staticmethod
        def forward(ctx, function, start, x, *params):
            with torch.no_grad():
                z = start
                for _ in range(60):
                    z = function(z, x)
            ctx.function = function
            ctx.save_for_backward(z, x, *params)
            return z

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, cotangent):
            z, x, *params = ctx.saved_tensors
            with torch.enable_grad():
                z, x = z.detach().requires_grad_(), x.detach().requires_grad_()
                out = ctx.function(z, x)
            total = cotangent
            for _ in range(60):
                total = grad(out, z, total, retain_graph=True)[0] + cotangent
            return (None, None, *grad(out, [x, *params], total, allow_unused=True))

    cell, inject = initialised(torch, nn.Linear(5, 5), 2), initialised(torch, nn.Linear(3, 5), 4)

    def step(z, x):
        return torch.tanh(0.5 * cell(z) + x)

    x, start = data(torch, 4, 3), torch.zeros(4, 5).double()
    z = FixedPoint.apply(step, start, inject(x), *cell.parameters())
    z.pow(2).sum().backward()
    found = [p.grad.clone() for p in (*cell.parameters(), *inject.parameters())]
    unrolled = start
    for _ in range(60):
        unrolled = step(unrolled, inject(x))
    wanted = grad(unrolled.pow(2).sum(), (*cell.parameters(), *inject.parameters()))
    assert all(torch.allclose(a, b, atol=1e-10) for a, b in zip(found, wanted))
    return {"z": z.detach().numpy(), **{f"grad{i}": g.numpy() for i, g in enumerate(found)}}


def word_vectors(torch):
    """Skip-grams with sparse gradients from an iterable of pairs, and bags of words."""
    nn, F, Data = torch.nn, torch.nn.functional, torch.utils.data
    text = "the quick fox jumps over the lazy dog while the dog sleeps and the fox runs over the hill".split()
    vocabulary = {word: i for i, word in enumerate(sorted(set(text)))}
    ids = [vocabulary[word] for word in text]

    class Pairs(Data.IterableDataset):
        def __iter__(self):
            assert Data.get_worker_info() is None
            for i, centre in enumerate(ids):
                for j in range(max(0, i - 2), min(len(ids), i + 3)):
                    if i != j:
                        yield centre, ids[j], np.random.RandomState(31 * i + j).randint(0, len(vocabulary), 3)

    inner, outer = (initialised(torch, nn.Embedding(len(vocabulary), 6, sparse=True), seed) for seed in range(2))
    optimizer = torch.optim.SparseAdam([*inner.parameters(), *outer.parameters()], lr=0.05)
    losses = []
    for centre, context, negative in Data.DataLoader(Pairs(), batch_size=16):
        c = inner(centre)
        pulled = F.logsigmoid((c * outer(context)).sum(1))
        pushed = F.logsigmoid(-torch.bmm(outer(negative), c.unsqueeze(2)).squeeze(2)).sum(1)
        optimizer.zero_grad()
        loss = -(pulled + pushed).mean()
        loss.backward()
        assert inner.weight.grad.is_sparse
        optimizer.step()
        losses.append(loss.item())
    bag = initialised(torch, nn.EmbeddingBag(len(vocabulary), 4, mode="mean", padding_idx=0))
    bags = bag(torch.tensor(ids), torch.tensor([0, 4, 4, 11]))
    near = F.normalize(inner.weight.detach()) @ F.normalize(inner.weight.detach())[vocabulary["fox"]]
    words = [sorted(vocabulary)[i] for i in near.topk(4)[1].tolist()]
    return {"losses": losses, "words": words, "bags": bags.detach().numpy(), **values(outer)}


PROGRAMS = [kalman_filter, contrast, distilled, equilibrium, word_vectors]
