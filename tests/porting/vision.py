"""Programs about images, sequences and rays: a vision transformer, translation with beams, NeRF, mixed precision, LoRA."""

import importlib
import importlib.util
import math

import numpy as np

from porting.common import data, initialised, labels, values

HAS_EINOPS = importlib.util.find_spec("einops") is not None


def seq2seq(torch):
    """An encoder and a decoder with attention, trained with teacher forcing; then a beam search."""
    nn = torch.nn
    vocabulary, size, end = 7, 8, 0

    class Translator(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(vocabulary, size)
            self.encoder = nn.GRU(size, size, batch_first=True, bidirectional=True)
            self.bridge = nn.Linear(2 * size, size)
            self.cell = nn.GRUCell(2 * size, size)
            self.out = nn.Linear(2 * size, vocabulary)

        def encode(self, source):
            states, last = self.encoder(self.embed(source))
            memory = self.bridge(states)
            return memory, torch.tanh(self.bridge(torch.cat([last[0], last[1]], dim=-1)))

        def step(self, token, state, memory):
            scores = torch.bmm(memory, state.unsqueeze(-1)).squeeze(-1) / math.sqrt(size)
            context = torch.bmm(scores.softmax(-1).unsqueeze(1), memory).squeeze(1)
            state = self.cell(torch.cat([self.embed(token), context], -1), state)
            return self.out(torch.cat([state, context], -1)), state

    model = initialised(torch, Translator(), seed=3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    source = labels(torch, 24, vocabulary - 1, 1).view(6, 4) + 1
    target = torch.flip(source, dims=[1])
    losses = []
    for _ in range(6):
        memory, state = model.encode(source)
        token, loss = torch.zeros(6, dtype=torch.long), 0.0
        for t in range(target.size(1)):
            logits, state = model.step(token, state, memory)
            loss = loss + nn.functional.cross_entropy(logits, target[:, t], label_smoothing=0.1)
            token = target[:, t]
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())

    @torch.no_grad()
    def beam(row, width=3, steps=5):
        memory, state = model.encode(row.unsqueeze(0))
        memory, state = memory.expand(width, -1, -1), state.expand(width, -1).contiguous()
        scores = torch.full((width,), -float("inf"), dtype=torch.float64)
        scores[0] = 0.0
        tokens = torch.zeros(width, 1, dtype=torch.long)
        done = torch.zeros(width, dtype=torch.bool)
        for _ in range(steps):
            logits, state = model.step(tokens[:, -1], state, memory)
            logp = logits.log_softmax(-1)
            frozen = torch.full_like(logp, -float("inf"))
            frozen[:, end] = 0.0
            logp = torch.where(done.unsqueeze(1), frozen, logp)
            best, flat = (scores.unsqueeze(1) + logp).view(-1).topk(width)
            which, token = torch.div(flat, vocabulary, rounding_mode="floor"), flat % vocabulary
            scores, tokens = best, torch.cat([tokens[which], token.unsqueeze(1)], dim=1)
            state, done = state[which], done[which] | (token == end)
        return tokens, scores

    tokens, scores = beam(source[0])
    return {"losses": losses, "tokens": tokens.numpy(), "scores": scores.numpy(), **values(model)}


def vit(torch):
    """A vision transformer whose patches are cut by einops, or by hand where that is not installed."""
    nn = torch.nn
    if HAS_EINOPS:
        from einops import rearrange, reduce, repeat
    else:
        from lucid.einops import rearrange, reduce, repeat  # the same patterns
    by_hand = torch.__name__ == "torch" and not HAS_EINOPS

    def patches(x):
        if by_hand:
            b, c, h, w = x.shape
            return x.view(b, c, h // 4, 4, w // 4, 4).permute(0, 2, 4, 3, 5, 1).reshape(b, (h // 4) * (w // 4), 16 * c)
        return rearrange(x, "b c (h p1) (w p2) -> b (h w) (p1 p2 c)", p1=4, p2=4)

    class ViT(nn.Module):
        def __init__(self):
            super().__init__()
            self.project = nn.Linear(48, 16)
            self.token = nn.Parameter(torch.zeros(1, 1, 16))
            self.positions = nn.Parameter(torch.zeros(1, 5, 16))
            layer = nn.TransformerEncoderLayer(
                16, 4, 32, dropout=0.0, batch_first=True, norm_first=True, activation="gelu"
            )
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.norm = nn.LayerNorm(16)
            self.head = nn.Linear(16, 3)

        def forward(self, x):
            x = self.project(patches(x))
            token = (
                self.token.expand(x.shape[0], 1, 16) if by_hand else repeat(self.token, "1 n d -> b n d", b=x.shape[0])
            )
            x = self.encoder(torch.cat([token, x], dim=1) + self.positions)
            pooled = x.mean(1) if by_hand else reduce(x, "b n d -> b d", "mean")
            return self.head(self.norm(pooled) + x[:, 0])

    model = initialised(torch, ViT())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.05)
    x, y = data(torch, 6, 3, 8, 8), labels(torch, 6, 3)
    losses = []
    for _ in range(4):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, **values(model)}


def nerf(torch):
    """Rays through a field of colours and densities, rendered by quadrature with samples by importance."""
    nn, F = torch.nn, torch.nn.functional

    def encode(x, bands=3):
        parts = [x]
        for k in range(bands):
            parts += [torch.sin(2.0**k * math.pi * x), torch.cos(2.0**k * math.pi * x)]
        return torch.cat(parts, dim=-1)

    class Field(nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk = nn.ModuleList([nn.Linear(21, 16), nn.Linear(16 + 21, 16)])
            self.density, self.colour = nn.Linear(16, 1), nn.Linear(16 + 21, 3)

        def forward(self, points, directions):
            x = encode(points)
            h = F.relu(self.trunk[0](x))
            h = F.relu(self.trunk[1](torch.cat([h, x], -1)))
            rgb = torch.sigmoid(self.colour(torch.cat([h, encode(directions).expand(*points.shape[:-1], 21)], -1)))
            return rgb, F.softplus(self.density(h)).squeeze(-1)

    def render(field, origins, directions, depths):
        points = origins[:, None] + depths[..., None] * directions[:, None]
        rgb, sigma = field(points, directions[:, None])
        deltas = torch.cat([depths[:, 1:] - depths[:, :-1], torch.full_like(depths[:, :1], 1e2)], -1)
        alpha = 1.0 - torch.exp(-sigma * deltas)
        light = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1.0 - alpha + 1e-10], -1), -1)[:, :-1]
        weights = alpha * light
        return (weights[..., None] * rgb).sum(-2), weights

    def by_importance(middles, weights, count):
        pdf = (weights + 1e-5) / (weights + 1e-5).sum(-1, keepdim=True)
        cdf = torch.cat([torch.zeros_like(pdf[:, :1]), pdf.cumsum(-1)], -1)
        u = torch.linspace(0.01, 0.99, count, dtype=torch.float64).expand(len(cdf), count).contiguous()
        index = torch.searchsorted(cdf.contiguous(), u, right=True)
        low, high = (index - 1).clamp(min=0), index.clamp(max=cdf.shape[-1] - 1)
        c0, c1 = torch.gather(cdf, 1, low), torch.gather(cdf, 1, high)
        b0, b1 = torch.gather(middles, 1, low), torch.gather(middles, 1, high)
        span = torch.where(c1 - c0 < 1e-5, torch.ones_like(c0), c1 - c0)
        return b0 + (u - c0) / span * (b1 - b0)

    field = initialised(torch, Field(), seed=1)
    optimizer = torch.optim.Adam(field.parameters(), lr=5e-3)
    origins, directions = data(torch, 5, 3) * 0.1, F.normalize(data(torch, 5, 3, seed=1), dim=-1)
    wanted = torch.sigmoid(data(torch, 5, 3, seed=2))
    losses = []
    for _ in range(4):
        depths = torch.linspace(0.5, 2.0, 6, dtype=torch.float64).expand(5, 6)
        coarse, weights = render(field, origins, directions, depths)
        middles = 0.5 * (depths[:, 1:] + depths[:, :-1])
        fine = by_importance(middles, weights[:, 1:-1].detach(), 4)
        both, _ = torch.sort(torch.cat([depths, fine], -1), dim=-1)
        image, _ = render(field, origins, directions, both)
        loss = F.mse_loss(coarse, wanted) + F.mse_loss(image, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "image": image.detach().numpy(), **values(field)}


def mixed_precision(torch):
    """Autocast, a gradient scaler that is off on this device, accumulation, and what stays in which type."""
    nn = torch.nn
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = initialised(torch, nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 3))).float()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler(device, enabled=device == "cuda")
    types, losses = [], []
    for step in range(4):
        x, y = data(torch, 8, 4, seed=step).float(), labels(torch, 8, 3, step)
        with torch.autocast(device_type=device, dtype=torch.bfloat16):
            out = model(x)
            loss = nn.functional.cross_entropy(out, y) / 2
        types.append([str(out.dtype), str(loss.dtype), str(model[0].weight.dtype)])
        scaler.scale(loss).backward()
        if step % 2:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        losses.append(round(loss.item(), 1))  # 8 bits of mantissa, rounded in another order
    return {"types": [" ".join(t) for t in types], "losses": losses, "enabled": scaler.is_enabled()}


def lora(torch):
    """A frozen layer with an update of low rank, merged at the end; a lazy head, and a pruned one."""
    nn = torch.nn

    class LoRA(nn.Module):
        def __init__(self, base, rank=2, alpha=4.0):
            super().__init__()
            self.base = base
            for p in base.parameters():
                p.requires_grad = False
            self.down = nn.Parameter(torch.zeros(rank, base.in_features))
            self.up = nn.Parameter(torch.zeros(base.out_features, rank))
            self.scale = alpha / rank

        def forward(self, x):
            return self.base(x) + self.scale * (x @ self.down.t() @ self.up.t())

        def merged(self):
            out = nn.Linear(self.base.in_features, self.base.out_features).double()
            out.load_state_dict(self.base.state_dict())
            with torch.no_grad():
                out.weight += self.scale * self.up @ self.down
            return out

    model = initialised(torch, LoRA(nn.Linear(6, 4)))
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(trainable, lr=0.05)
    x, y = data(torch, 10, 6), data(torch, 10, 4, seed=1)
    losses = []
    for _ in range(5):
        loss = nn.functional.huber_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    head = nn.Sequential(nn.LazyLinear(3), nn.Tanh()).double()
    head(x)
    head = initialised(torch, head)
    prune = importlib.import_module(f"{torch.__name__}.nn.utils.prune")
    prune.l1_unstructured(head[0], "weight", amount=0.5)
    return {
        "losses": losses, "same": bool(torch.allclose(model.merged()(x), model(x))), "count": len(trainable),
        "head": head(x).detach().numpy(), "mask": head[0].weight_mask.numpy(), "keys": list(head.state_dict()), **values(model),
    }  # fmt: skip


def saliency(torch):
    """Grad-CAM of a small network by hooks on a layer and on all modules, and an ensemble by stacked states."""
    nn = torch.nn
    model = initialised(torch, nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)))  # fmt: skip
    kept, seen = {}, []
    handles = [
        model[1].register_forward_hook(lambda m, i, o: kept.update(maps=o)),
        model[1].register_full_backward_hook(lambda m, gi, go: kept.update(grads=go[0])),
        nn.modules.module.register_module_forward_hook(lambda m, i, o: seen.append(type(m).__name__)),
    ]
    image = data(torch, 1, 1, 6, 6)
    model(image)[0, 1].backward()
    for handle in handles:
        handle.remove()
    weights = kept["grads"].mean(dim=(2, 3), keepdim=True)
    cam = torch.relu((weights * kept["maps"]).sum(1))
    models = [initialised(torch, nn.Linear(3, 2), seed=s) for s in range(3)]
    params, buffers = torch.func.stack_module_state(models)
    base = nn.Linear(3, 2).double()

    def run(p, b, x):
        return torch.func.functional_call(base, (p, b), (x,))

    out = torch.func.vmap(run, in_dims=(0, 0, None))(params, buffers, data(torch, 5, 3))
    return {"cam": cam.detach().numpy(), "seen": seen, "ensemble": out.detach().numpy(), "n": np.float64(len(params))}


PROGRAMS = [seq2seq, vit, nerf, mixed_precision, lora, saliency]
