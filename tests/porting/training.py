"""Training loops: classifiers, sequence models, generative models."""

import io
import math

import numpy as np

from porting.common import data, initialised, labels, values


def classifier(torch):
    """A convolutional classifier with a data loader, a schedule, clipping and an evaluation."""
    nn, F = torch.nn, torch.nn.functional
    DataLoader, TensorDataset = torch.utils.data.DataLoader, torch.utils.data.TensorDataset

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(
                nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2)
            )
            self.head = nn.Linear(4 * 4 * 4, 3)
            for m in self.modules():
                if isinstance(m, (nn.Conv2d, nn.Linear)):
                    nn.init.kaiming_normal_(m.weight, nonlinearity="relu")
                    nn.init.zeros_(m.bias)

        def forward(self, x):
            x = self.features(x)
            return self.head(x.view(x.size(0), -1))

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = initialised(torch, Net()).to(device)
    loader = DataLoader(TensorDataset(data(torch, 24, 1, 8, 8), labels(torch, 24, 3)), batch_size=8, shuffle=False)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    losses = []
    for _ in range(3):
        model.train()
        for x, y in loader:
            x, y = x.to(device, non_blocking=True), y.to(device)
            optimizer.zero_grad(set_to_none=True)
            loss = criterion(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
    model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in loader:
            pred = F.softmax(model(x), dim=1).argmax(dim=1)
            correct += pred.eq(y).sum().item()
    count = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return {"losses": losses, "correct": correct, "count": count, "lr": scheduler.get_last_lr(), **values(model)}


def gpt(torch):
    """A small causal transformer: training interrupted by a checkpoint, and greedy generation with cached keys."""
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv = nn.Linear(width, 3 * width, bias=False)
            self.proj = nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x, cache=None):
            b, t, c = x.shape
            q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
            q, k, v = (a.view(b, t, self.heads, c // self.heads).transpose(1, 2) for a in (q, k, v))
            if cache is not None:
                k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=cache is None)
            x = x + self.proj(y.transpose(1, 2).contiguous().view(b, t, c))
            return x + self.mlp(self.ln2(x)), (k, v)

    class GPT(nn.Module):
        def __init__(self, vocabulary=11, width=16, heads=2, layers=2, length=12):
            super().__init__()
            self.tok, self.pos = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
            self.ln = nn.LayerNorm(width)
            self.head = nn.Linear(width, vocabulary, bias=False)
            self.head.weight = self.tok.weight
            self.register_buffer("steps", torch.arange(length))

        def forward(self, ids, caches=None):
            start = 0 if caches is None else caches[0][0].size(2)
            x = self.tok(ids) + self.pos(self.steps[start : start + ids.size(1)])
            new = []
            for i, block in enumerate(self.blocks):
                x, cache = block(x, None if caches is None else caches[i])
                new.append(cache)
            return self.head(self.ln(x)), new

    def make():
        model = initialised(torch, GPT())
        return model, torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1)

    ids = labels(torch, 4 * 9, 11).view(4, 9)

    def train(model, optimizer, steps):
        found = []
        for _ in range(steps):
            logits, _ = model(ids[:, :-1])
            loss = F.cross_entropy(logits.reshape(-1, logits.size(-1)), ids[:, 1:].reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    model, optimizer = make()
    losses = train(model, optimizer, 3)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 3}, file)
    file.seek(0)
    state = torch.load(file, map_location="cpu", weights_only=True)
    again, optimizer = make()
    again.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    losses += train(again, optimizer, 3)
    with torch.no_grad():
        logits, caches = again(ids[:1, :3])
        out = []
        for _ in range(5):
            step = logits[:, -1].argmax(-1, keepdim=True)
            out.append(step.item())
            logits, caches = again(step, caches)
    return {"losses": losses, "generated": out, "step": state["step"]}


def gan(torch):
    """A Wasserstein GAN with gradient penalty."""
    nn = torch.nn
    generator = initialised(torch, nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(0.2), nn.Linear(8, 2)), 1)
    critic = initialised(torch, nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)), 2)
    g_opt = torch.optim.Adam(generator.parameters(), lr=1e-2, betas=(0.5, 0.9))
    c_opt = torch.optim.RMSprop(critic.parameters(), lr=1e-2)
    found = []
    for step in range(4):
        real, noise = data(torch, 6, 2, seed=step), data(torch, 6, 3, seed=100 + step)
        fake = generator(noise).detach()
        mix = torch.sigmoid(data(torch, 6, 1, seed=200 + step))
        between = (mix * real + (1 - mix) * fake).requires_grad_(True)
        scores = critic(between)
        gradients = torch.autograd.grad(
            outputs=scores,
            inputs=between,
            grad_outputs=torch.ones_like(scores),
            create_graph=True,
            retain_graph=True,
            only_inputs=True,
        )[0]
        penalty = ((gradients.view(gradients.size(0), -1).norm(2, dim=1) - 1) ** 2).mean()
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
        c_opt.zero_grad()
        loss.backward()
        c_opt.step()
        for p in critic.parameters():
            p.data.clamp_(-0.5, 0.5)
        g_opt.zero_grad()
        (-critic(generator(noise)).mean()).backward()
        g_opt.step()
        found.append(loss.item())
    return {"losses": found, **values(generator)}


def char_rnn(torch):
    """A recurrent model of characters on packed sequences of different lengths."""
    nn = torch.nn
    rnn_utils = torch.nn.utils.rnn
    text = ["hello", "lucid", "tea"]
    alphabet = sorted(set("".join(text)))
    rows = [torch.tensor([alphabet.index(c) for c in word]) for word in text]
    lengths = torch.tensor([len(r) - 1 for r in rows])
    padded = rnn_utils.pad_sequence([r[:-1] for r in rows], batch_first=True)
    target = rnn_utils.pad_sequence([r[1:] for r in rows], batch_first=True, padding_value=-100)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(len(alphabet), 6)
            self.rnn = nn.LSTM(6, 8, num_layers=2, batch_first=True)
            self.gru = nn.GRU(8, 5, batch_first=True, bidirectional=True)
            self.out = nn.Linear(10, len(alphabet))

        def forward(self, ids, sizes):
            packed = rnn_utils.pack_padded_sequence(
                self.embed(ids), sizes.cpu(), batch_first=True, enforce_sorted=False
            )
            output, (h, _) = self.rnn(packed)
            output, _ = self.gru(output)
            output, _ = rnn_utils.pad_packed_sequence(output, batch_first=True)
            return self.out(output), h

    model = initialised(torch, Model())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(4):
        logits, h = model(padded, lengths)
        loss = nn.functional.cross_entropy(logits.transpose(1, 2), target, ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "hidden": h.detach().numpy()}


def vae(torch):
    """A variational autoencoder with noise of the program's own."""
    nn, F = torch.nn, torch.nn.functional

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.mu, self.logvar = nn.Linear(6, 8), nn.Linear(8, 2), nn.Linear(8, 2)
            self.fc2, self.fc3 = nn.Linear(2, 8), nn.Linear(8, 6)

        def forward(self, x, eps):
            h = F.relu(self.fc1(x))
            mu, logvar = self.mu(h), self.logvar(h)
            z = mu + eps * torch.exp(0.5 * logvar)
            return torch.sigmoid(self.fc3(F.relu(self.fc2(z)))), mu, logvar

    model = initialised(torch, VAE())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, amsgrad=True)
    x = torch.sigmoid(data(torch, 5, 6))
    losses = []
    for step in range(4):
        recon, mu, logvar = model(x, data(torch, 5, 2, seed=step))
        loss = F.binary_cross_entropy(recon, x, reduction="sum")
        loss += -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, **values(model)}


def diffusion(torch):
    """Denoising diffusion with an exponential moving average of the weights."""
    nn = torch.nn
    steps = 10
    betas = torch.linspace(1e-4, 0.02, steps, dtype=torch.float64)
    alphas = torch.cumprod(1.0 - betas, dim=0)

    class Denoiser(nn.Module):
        def __init__(self):
            super().__init__()
            self.time = nn.Embedding(steps, 4)
            self.net = nn.Sequential(nn.Linear(6, 16), nn.SiLU(), nn.Linear(16, 2))

        def forward(self, x, t):
            return self.net(torch.cat((x, self.time(t)), dim=-1))

    model = initialised(torch, Denoiser())
    ema = torch.optim.swa_utils.AveragedModel(model, avg_fn=lambda avg, new, n: 0.9 * avg + 0.1 * new)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for step in range(4):
        x, noise, t = data(torch, 8, 2, seed=step), data(torch, 8, 2, seed=50 + step), labels(torch, 8, steps, step)
        a = alphas[t][:, None]
        loss = nn.functional.mse_loss(model(a.sqrt() * x + (1 - a).sqrt() * noise, t), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update_parameters(model)
        losses.append(loss.item())
    return {"losses": losses, **values(ema.module)}


def schedules(torch):
    """Learning rates over time, under several schedules in a row."""
    p = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([{"params": [p], "lr": 0.1}], lr=1.0)
    S = torch.optim.lr_scheduler
    warm = S.LinearLR(optimizer, start_factor=0.1, total_iters=3)
    cosine = S.CosineAnnealingLR(optimizer, T_max=5)
    schedule = S.SequentialLR(optimizer, schedulers=[warm, cosine], milestones=[3])
    rates = []
    for _ in range(8):
        p.grad = torch.ones_like(p)
        optimizer.step()
        schedule.step()
        rates.append(optimizer.param_groups[0]["lr"])
    return {"rates": rates, "p": p.detach().numpy(), "pi": math.pi, "n": np.float64(p.numel())}


PROGRAMS = [classifier, gpt, gan, char_rnn, vae, diffusion, schedules]
