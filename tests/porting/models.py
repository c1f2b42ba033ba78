"""Models with state of their own: what they keep in attributes of parameters, in buffers and in queues."""

import copy
import math
import random
from collections import deque, namedtuple

import numpy as np

from porting.common import data, initialised, labels, values


def state_space(torch):
    """A selective state space; parameters say by attributes how they are trained, which copies keep."""
    nn, F = torch.nn, torch.nn.functional
    inner, states = 12, 3

    class Block(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.enter, self.leave = nn.Linear(dim, 2 * inner, bias=False), nn.Linear(inner, dim, bias=False)
            self.conv = nn.Conv1d(inner, inner, 3, groups=inner, padding=2)
            self.select, self.step = nn.Linear(inner, 1 + 2 * states, bias=False), nn.Linear(1, inner)
            self.rates = nn.Parameter(torch.log(torch.arange(1, states + 1, dtype=torch.float64).repeat(inner, 1)))
            self.skip = nn.Parameter(torch.ones(inner))
            for p in (self.rates, self.skip, self.step.bias):
                p._no_weight_decay = True

        def forward(self, x):
            x, gate = self.enter(x).chunk(2, dim=-1)
            x = F.silu(self.conv(x.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))
            step, into, out = torch.split(self.select(x), [1, states, states], dim=-1)
            step = F.softplus(self.step(step))
            kept = torch.exp(torch.einsum("bld,dn->bldn", step, -torch.exp(self.rates)))
            new = torch.einsum("bld,bln,bld->bldn", step, into, x)
            h, rows = x.new_zeros(x.shape[0], inner, states), []
            for i in range(x.shape[1]):
                h = kept[:, i] * h + new[:, i]
                rows.append(torch.einsum("bdn,bn->bd", h, out[:, i]))
            return self.leave((torch.stack(rows, 1) + x * self.skip) * F.silu(gate))

    model = initialised(torch, Block(6))
    groups = [[p for p in model.parameters() if getattr(p, "_no_weight_decay", False) is no] for no in (False, True)]
    optimizer = torch.optim.AdamW([{"params": groups[0]}, {"params": groups[1], "weight_decay": 0.0}], lr=1e-2)
    x, losses = data(torch, 2, 7, 6), []
    for _ in range(4):
        optimizer.zero_grad()
        loss = (model(x) - x.roll(1, 1)).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "sizes": [len(g) for g in groups], **values(model)}


def replay(torch):
    """Double Q-learning from a buffer of transitions, with a target network that follows slowly."""
    nn, F = torch.nn, torch.nn.functional
    Transition = namedtuple("Transition", "state action reward after done")
    draw = random.Random(0)
    memory = deque(maxlen=30)
    online = initialised(torch, nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)))
    target = copy.deepcopy(online).requires_grad_(False)
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-2, amsgrad=True)
    state, losses = data(torch, 4), []
    for i in range(40):
        with torch.no_grad():
            best = online(state.unsqueeze(0)).max(1).indices.view(1, 1).item()
        action = draw.randrange(3) if draw.random() < 0.3 else best
        after = torch.tanh(state + data(torch, 4, seed=i) * 0.3)
        memory.append(Transition(state, action, -float(after.abs().sum()), after, i % 10 == 9))
        state = after
        if len(memory) < 12:
            continue
        batch = Transition(*zip(*draw.sample(list(memory), 8), strict=True))
        states, afters = torch.stack(batch.state), torch.stack(batch.after)
        actions = torch.tensor(batch.action).unsqueeze(1)
        rewards = torch.as_tensor(batch.reward, dtype=torch.float64)
        done = torch.tensor(batch.done, dtype=torch.uint8)
        with torch.no_grad():
            future = target(afters).gather(1, online(afters).argmax(1, keepdim=True)).squeeze(-1)
            future[done.bool()] = 0
        loss = F.smooth_l1_loss(online(states).gather(1, actions).squeeze(1), rewards + 0.9 * future)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_value_(online.parameters(), 0.5)
        optimizer.step()
        for slow, fast in zip(target.parameters(), online.parameters(), strict=True):
            slow.data.mul_(0.9).add_(fast.data, alpha=0.1)
        losses.append(loss.item())
    return {"losses": losses, **values(target)}


def codebook(torch):
    """A vector quantizer that learns by moving averages in buffers, with gradients straight through."""
    nn, F = torch.nn, torch.nn.functional

    class Quantizer(nn.Module):
        def __init__(self, count, dim):
            super().__init__()
            self.count = count
            self.register_buffer("codes", data(torch, dim, count, seed=3))
            self.register_buffer("sizes", torch.zeros(count, dtype=torch.float64))
            self.register_buffer("sums", self.codes.clone())

        def forward(self, x):
            rows = x.reshape(-1, x.shape[-1])
            apart = rows.pow(2).sum(1, keepdim=True) - 2 * rows @ self.codes + self.codes.pow(2).sum(0, keepdim=True)
            _, nearest = (-apart).max(1)
            hot = F.one_hot(nearest, self.count).type(rows.dtype)
            found = F.embedding(nearest.view(*x.shape[:-1]), self.codes.transpose(0, 1))
            if self.training:
                self.sizes.data.mul_(0.9).add_(hot.sum(0), alpha=0.1)
                self.sums.data.mul_(0.9).add_((rows.transpose(0, 1) @ hot).detach(), alpha=0.1)
                n = self.sizes.sum()
                sizes = (self.sizes + 1e-5) / (n + self.count * 1e-5) * n
                self.codes.data.copy_(self.sums / sizes.unsqueeze(0))
            share = hot.mean(0)
            perplexity = torch.exp(-(share * (share + 1e-10).log()).sum())
            return x + (found - x).detach(), (found.detach() - x).pow(2).mean(), perplexity

    quantizer, encoder = Quantizer(6, 3), initialised(torch, nn.Conv2d(1, 3, 3, padding=1))
    decoder = initialised(torch, nn.ConvTranspose2d(3, 1, 3, padding=1), seed=1)
    optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.05, momentum=0.9)
    x, losses = data(torch, 2, 1, 5, 5), []
    for _ in range(5):
        coded, commitment, perplexity = quantizer(encoder(x).permute(0, 2, 3, 1))
        loss = F.mse_loss(decoder(coded.permute(0, 3, 1, 2)), x) + 0.25 * commitment
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append([loss.item(), perplexity.item()])
    return {"losses": losses, **{n: b.numpy() for n, b in quantizer.named_buffers()}, **values(encoder)}


def graph_attention(torch):
    """Messages along edges: softmax and sums by scatters, and the reductions of `scatter_reduce_`."""
    nn, F = torch.nn, torch.nn.functional
    source, goal = torch.tensor([[0, 1, 1, 2, 3, 3, 4], [1, 0, 2, 1, 0, 4, 3]])
    nodes, heads, size = 5, 2, 3

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, heads * size, bias=False)
            self.scores = nn.Parameter(torch.empty(1, heads, 2 * size))

        def forward(self, x):
            z = self.linear(x).view(-1, heads, size)
            scores = F.leaky_relu((torch.cat([z[source], z[goal]], -1) * self.scores).sum(-1), 0.2)
            most = torch.full((nodes, heads), -math.inf, dtype=x.dtype)
            most = most.index_reduce_(0, goal, scores.detach(), "amax")
            weights = (scores - most[goal]).exp()
            weights = weights / torch.zeros(nodes, heads, dtype=x.dtype).index_add(0, goal, weights)[goal]
            return torch.zeros_like(z).index_add_(0, goal, z[source] * weights.unsqueeze(-1)).flatten(1)

    model, x = initialised(torch, Attention()), data(torch, nodes, 4).requires_grad_()
    out = model(x)
    loss = F.cross_entropy(out, labels(torch, nodes, heads * size))
    loss.backward()
    results = {"out": out.detach().numpy(), "x": x.grad.numpy(), "scores": model.scores.grad.numpy()}
    for way in ("sum", "mean", "amax", "amin", "prod"):
        leaf = data(torch, nodes, 2, seed=1).requires_grad_()
        index = goal.view(-1, 1).expand(-1, 2)
        pooled = leaf.new_zeros(nodes, 2).scatter_reduce_(0, index, leaf[source], way, include_self=False)
        (pooled * data(torch, nodes, 2, seed=2)).sum().backward()
        results[way] = np.stack([pooled.detach().numpy(), leaf.grad.numpy()])
    return results


PROGRAMS = [state_space, replay, codebook, graph_attention]
