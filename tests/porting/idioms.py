"""Programs in the manner of public repositories: the idioms that each of them is known by."""

import math

import numpy as np

from porting.common import data, initialised, labels, values


def llama(torch):
    """Rotary embeddings by complex numbers, grouped queries and a cache of keys that is written in place."""
    nn, F = torch.nn, torch.nn.functional
    dim, heads, groups, length = 16, 4, 2, 10

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.wq, self.wo = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
            self.wk, self.wv = (nn.Linear(dim, dim // heads * groups, bias=False) for _ in range(2))
            self.cache_k = torch.zeros((2, length, groups, dim // heads), dtype=torch.float64)
            self.cache_v = torch.zeros_like(self.cache_k)

        def forward(self, x, start, angles):
            b, n, _ = x.shape
            q = self.wq(x).view(b, n, heads, -1)
            k, v = (w(x).view(b, n, groups, -1) for w in (self.wk, self.wv))
            q, k = (self.turned(t, angles[start : start + n]) for t in (q, k))
            if not torch.is_grad_enabled():
                self.cache_k[:b, start : start + n] = k
                self.cache_v[:b, start : start + n] = v
                k, v = self.cache_k[:b, : start + n], self.cache_v[:b, : start + n]
            k, v = (
                t[:, :, :, None, :].expand(b, t.shape[1], groups, heads // groups, -1).flatten(2, 3) for t in (k, v)
            )
            scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
            mask = torch.full((n, n), float("-inf")).triu(1)
            scores = scores + torch.hstack([torch.zeros((n, k.shape[1] - n)), mask]).type_as(scores)
            return self.wo(torch.einsum("bhqk,bkhd->bqhd", F.softmax(scores, -1), v).reshape(b, n, -1))

        def turned(self, t, angles):
            pairs = torch.view_as_complex(t.reshape(*t.shape[:-1], -1, 2))
            return torch.view_as_real(pairs * angles.view(1, t.shape[1], 1, -1)).flatten(3).type_as(t)

    rates = 1.0 / 100.0 ** (torch.arange(0, 4, 2, dtype=torch.float64) / 4)
    angles = torch.polar(torch.ones(length, 2, dtype=torch.float64), torch.outer(torch.arange(length).double(), rates))
    model, x = initialised(torch, Attention()), data(torch, 2, 6, dim)
    whole = model(x, 0, angles)
    whole.pow(2).mean().backward()
    with torch.inference_mode():
        steps = torch.cat([model(x[:, :4], 0, angles), model(x[:, 4:5], 4, angles), model(x[:, 5:], 5, angles)], 1)
    assert torch.allclose(whole, steps)
    return {"out": steps.numpy(), **{n: p.grad.numpy() for n, p in model.named_parameters()}}


def experts(torch):
    """A mixture of experts: tokens are sent by a mask, and come back by `index_add_`."""
    nn, F = torch.nn, torch.nn.functional

    class Mixture(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(6, 4, bias=False)
            self.experts = nn.ModuleList([nn.Sequential(nn.Linear(6, 8), nn.SiLU(), nn.Linear(8, 6)) for _ in range(4)])

        def forward(self, x):
            weights, chosen = torch.topk(F.softmax(self.gate(x), dim=1), 2, dim=-1)
            weights /= weights.sum(dim=-1, keepdim=True)
            out = torch.zeros_like(x)
            mask = F.one_hot(chosen, num_classes=4).permute(2, 1, 0)
            for expert in torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero():
                which, rows = torch.where(mask[expert].squeeze(0))
                out.index_add_(0, rows, self.experts[expert](x[None, rows].reshape(-1, 6)) * weights[rows, which, None])
            return out, torch.bincount(chosen.flatten(), minlength=4)

    model, x = initialised(torch, Mixture()), data(torch, 9, 6)
    optimizer = torch.optim.RAdam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(4):
        out, counts = model(x)
        loss = F.mse_loss(out, x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "counts": counts.numpy(), "type": str(counts.dtype), **values(model)}


def order_of_parameters(torch):
    """Gradients of a dict of parameters come in its order, so their values can be zipped."""
    nn = torch.nn
    net = initialised(torch, nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)))
    params = {name: p.detach() for name, p in net.named_parameters()}
    x, y = data(torch, 5, 2), data(torch, 5, 1, seed=1)

    def loss(params):
        return torch.nn.functional.mse_loss(torch.func.functional_call(net, params, (x,)), y)

    for _ in range(3):
        grads = torch.func.grad(loss)(params)
        params = {name: p - 0.1 * g for (name, p), g in zip(params.items(), grads.values(), strict=True)}
    rows = torch.vmap(torch.func.jacrev(lambda p, x: torch.func.functional_call(net, p, (x,))), (None, 0))(params, x)
    kernel = sum(torch.einsum("nof,mof->nm", r, r) for r in (j.flatten(2) for j in rows.values()))
    return {"names": list(grads), "kernel": kernel.numpy(), "loss": loss(params).item()}


def printed(torch):
    """What programs print: tensors, numbers in texts, sizes and types."""
    loss, x = torch.tensor(0.25), torch.tensor([[1.0, 2.5], [-300.0, 1e-3]])
    lines = [f"loss {loss} {loss:.3f}", str(x), repr(x[0].half()), repr(x > 0), repr(x.shape), str(x.dtype), repr(loss)]
    lines += [
        repr(torch.arange(1500)),
        repr(torch.tensor([1e10, 1.0])),
        repr(torch.zeros(0, 2)),
        repr(torch.tensor(1j)),
    ]
    lines += [repr(torch.nn.Parameter(x[0])), str(torch.distributions.Normal(0.0, loss)), repr(x.to_sparse().size(0))]
    return {"lines": lines, "x": x.numpy()}


def crf(torch):
    """A conditional random field over tags: scores, the partition function and the best paths."""
    nn = torch.nn
    tags, steps, batch = 4, 5, 3
    emissions = data(torch, steps, batch, tags).requires_grad_()
    start, end, between = (
        nn.Parameter(data(torch, *s, seed=i)) for i, s in enumerate([(tags,), (tags,), (tags, tags)])
    )
    gold = labels(torch, (steps, batch), tags)
    mask = torch.tensor([[1, 1, 1], [1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 0, 0]], dtype=torch.uint8)
    rows = torch.arange(batch)
    score = start[gold[0]] + emissions[0, rows, gold[0]]
    alpha = start + emissions[0]
    best, history = alpha.detach(), []
    for i in range(1, steps):
        score += (between[gold[i - 1], gold[i]] + emissions[i, rows, gold[i]]) * mask[i].double()
        following = torch.logsumexp(alpha.unsqueeze(2) + between + emissions[i].unsqueeze(1), dim=1)
        alpha = torch.where(mask[i].unsqueeze(1).bool(), following, alpha)
        found, where = (best.unsqueeze(2) + between.detach() + emissions[i].detach().unsqueeze(1)).max(dim=1)
        best = torch.where(mask[i].unsqueeze(1).bool(), found, best)
        history.append(where)
    last = mask.long().sum(dim=0) - 1
    likelihood = score + end[gold[last, rows]] - torch.logsumexp(alpha + end, dim=1)
    (-likelihood.sum()).backward()
    paths = []
    for b in range(batch):
        path = [(best + end.detach())[b].argmax().item()]
        for where in reversed(history[: last[b]]):
            path.append(where[b][path[-1]].item())
        paths += path[::-1]
    grads = {f"grad{i}": p.grad.numpy() for i, p in enumerate((start, end, between, emissions))}
    return {"likelihood": likelihood.detach().numpy(), "paths": paths, **grads}


def older_hooks(torch):
    """State dicts that hooks rewrite, under the names that public code uses, and hooks that are cleared."""
    nn = torch.nn

    class Renamed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 2)
            self._register_state_dict_hook(self.saved)
            self._register_load_state_dict_pre_hook(self.loaded)

        @staticmethod
        def saved(module, state, prefix, metadata):
            state[prefix + "old.weight"] = state.pop(prefix + "layer.weight")

        def loaded(self, state, prefix, *_):
            state[prefix + "layer.weight"] = state.pop(prefix + "old.weight")

        def forward(self, x):
            return self.layer(x)

    model, other = initialised(torch, Renamed()), Renamed().double()
    state = model.state_dict()
    other.load_state_dict(dict(state))
    other.layer.register_forward_hook(lambda module, args, output: output * 0)
    silent = other(data(torch, 2, 3))
    for module in other.modules():
        module._forward_hooks.clear()
    return {"keys": sorted(state), "silent": silent.detach().numpy(), "out": other(data(torch, 2, 3)).detach().numpy()}


def actor_critic(torch):
    """Advantages by GAE and clipped policy gradients, with distributions of numbers and of tensors."""
    nn, distributions = torch.nn, torch.distributions
    actor, critic = initialised(torch, nn.Linear(3, 2)), initialised(torch, nn.Linear(3, 1), seed=1)
    spread = nn.Parameter(torch.zeros(1, 2, dtype=torch.float64))
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters(), spread], lr=1e-2, eps=1e-5)
    states, actions, rewards = data(torch, 8, 3), data(torch, 8, 2, seed=1), data(torch, 8, seed=2)
    prior = distributions.Independent(distributions.Normal(torch.zeros(2).double(), torch.ones(2).double()), 1)
    with torch.no_grad():
        value, advantages, last = critic(states).squeeze(-1), torch.zeros_like(rewards), 0
        for t in reversed(range(7)):
            advantages[t] = last = rewards[t] + 0.99 * value[t + 1] - value[t] + 0.99 * 0.95 * last
        before = distributions.Normal(actor(states), spread.exp()).log_prob(actions).sum(1)
    losses = []
    for _ in range(4):
        policy = distributions.Normal(actor(states), spread.exp().expand(8, 2))
        ratio = (policy.log_prob(actions).sum(1) - before).exp()
        scaled = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        gain = torch.min(ratio * scaled, ratio.clamp(0.8, 1.2) * scaled).mean()
        drift = distributions.kl_divergence(distributions.Independent(policy, 1), prior).mean()
        loss = -gain + 0.5 * (critic(states).squeeze(-1) - advantages - value).pow(2).mean() + 0.01 * drift
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(actor.parameters(), 0.5)
        optimizer.step()
        losses.append(loss.item())
    shape = distributions.Laplace(0.0, 1.0).expand((2, 3)).batch_shape
    return {"losses": losses, "spread": spread.detach().numpy(), "shape": repr(shape), "count": shape.numel()}


def segments(torch):
    """Pooling of graphs of different sizes, by segments, by scattering and by splitting."""
    x = data(torch, 9, 3).requires_grad_()
    sizes = torch.tensor([4, 2, 3])
    found = {}
    for name in ("sum", "mean", "max", "min"):
        pooled = torch.segment_reduce(x, name, lengths=sizes)
        (grad,) = torch.autograd.grad(pooled.pow(2).sum(), x)
        found |= {name: pooled.detach().numpy(), f"{name}_grad": grad.numpy()}
    apart = torch.stack([part.mean(0) for part in x.split(sizes.tolist())])
    assert torch.allclose(apart, torch.segment_reduce(x, "mean", lengths=sizes))
    return found


def spectral(torch):
    """A Fourier neural operator: complex weights on the lowest frequencies."""
    nn, F = torch.nn, torch.nn.functional
    real, weight = data(torch, 3, 3, 4), nn.Parameter(torch.complex(data(torch, 3, 3, 4), data(torch, 3, 3, 4, seed=1)))
    bypass = initialised(torch, nn.Conv1d(3, 3, 1))
    optimizer = torch.optim.Adam([weight, *bypass.parameters()], lr=1e-2)
    x, target, losses = data(torch, 2, 3, 16, seed=2), data(torch, 2, 3, 16, seed=3), []
    for _ in range(4):
        spectrum = torch.fft.rfft(x)
        out = torch.zeros(2, 3, 9, dtype=torch.cdouble)
        out[:, :, :4] = torch.einsum("bix,iox->box", spectrum[:, :, :4], weight)
        loss = torch.norm((F.gelu(torch.fft.irfft(out, n=16) + bypass(x)) - target).reshape(2, -1), 2, 1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    parts = torch.view_as_real(weight.detach())
    return {"losses": losses, "parts": parts.numpy(), "real": real.numpy(), "count": np.int64(weight.numel())}


def errors(torch):
    """What programs catch: a RuntimeError for what does not fit."""
    F = torch.nn.functional
    calls = {
        "broadcast": lambda: torch.ones(2) + torch.ones(3),
        "matmul": lambda: torch.ones(2, 3) @ torch.ones(2, 3),
        "view": lambda: torch.ones(6).view(4, -1),
        "cat": lambda: torch.cat([torch.ones(2, 3), torch.ones(3, 2)]),
        "stack": lambda: torch.stack([torch.ones(2), torch.ones(3)]),
        "einsum": lambda: torch.einsum("ij->k", torch.ones(2, 2)),
        "truth": lambda: bool(torch.ones(2)),
        "types": lambda: F.linear(torch.ones(1, 2).double(), torch.ones(2, 2)),
        "indices": lambda: torch.ones(2).gather(0, torch.tensor([5])),
        "empty": lambda: torch.ones(0).max(),
        "range": lambda: torch.arange(0, 5, -1),
        "probability": lambda: F.binary_cross_entropy(torch.tensor([2.0]), torch.ones(1)),
        "twice": lambda: [y.backward() for y in [torch.ones(1, requires_grad=True).exp().sum()] * 2],
    }
    caught = []
    for name, call in calls.items():
        try:
            call()
        except RuntimeError:
            caught.append(name)
    return {"caught": caught}


PROGRAMS = [
    llama, experts, order_of_parameters, printed, crf, older_hooks, actor_critic, segments, spectral, errors,
]  # fmt: skip
