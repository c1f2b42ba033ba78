"""Programs in which derivatives themselves are used: equations, inner loops, second-order methods."""

import numpy as np

from porting.common import data, initialised, values


def pinn(torch):
    """A physics-informed network: u'' = -u with boundary values, by L-BFGS."""
    nn = torch.nn
    model = initialised(torch, nn.Sequential(nn.Linear(1, 10), nn.Tanh(), nn.Linear(10, 1)))
    x = torch.linspace(0, 1, 9, dtype=torch.float64).view(-1, 1).requires_grad_(True)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5, line_search_fn="strong_wolfe")
    losses = []

    def closure():
        optimizer.zero_grad()
        u = model(x)
        du = torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)[0]
        ddu = torch.autograd.grad(du, x, torch.ones_like(du), create_graph=True)[0]
        loss = ((ddu + u) ** 2).mean() + (u[0] - 1).pow(2).sum() + du[0].pow(2).sum()
        loss.backward()
        return loss

    for _ in range(3):
        losses.append(optimizer.step(closure).item())
    return {"losses": losses, "u": model(x).detach().numpy()}


def maml(torch):
    """Meta-learning: the gradient goes through the steps of an inner loop, by hand and by functional_call."""
    nn, F = torch.nn, torch.nn.functional
    model = initialised(torch, nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1)))
    meta = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for step in range(3):
        meta.zero_grad()
        total = 0.0
        for task in range(2):
            x = data(torch, 5, 1, seed=10 * step + task)
            y = torch.sin(x + task)
            fast = dict(model.named_parameters())
            for _ in range(2):
                loss = F.mse_loss(torch.func.functional_call(model, fast, (x,)), y)
                grads = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
                fast = {name: w - 0.1 * g for (name, w), g in zip(fast.items(), grads)}
            total = total + F.mse_loss(torch.func.functional_call(model, fast, (x,)), y)
        total.backward()
        meta.step()
        losses.append(total.item())
    return {"losses": losses, **values(model)}


def neural_ode(torch):
    """A custom Function with the adjoint method inside: Euler steps forward, and an adjoint equation backward."""
    net = initialised(torch, torch.nn.Sequential(torch.nn.Linear(2, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2)))
    params = tuple(net.parameters())
    steps, dt = 5, 0.1

    class Solve(torch.autograd.Function):
        @staticmethod
        def forward(ctx, y, *weights):
            with torch.no_grad():
                for _ in range(steps):
                    y = y + dt * net(y)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, grad):
            (y,) = ctx.saved_tensors
            sums = [torch.zeros_like(p) for p in params]
            for _ in range(steps):
                with torch.enable_grad():
                    z = y.detach().requires_grad_(True)
                    f = net(z)
                found = torch.autograd.grad(f, (z, *params), grad)
                grad = grad + dt * found[0]
                for s, g in zip(sums, found[1:]):
                    s.add_(g, alpha=dt)
                y = y - dt * f.detach()
            return (grad, *sums)

    y0 = data(torch, 4, 2).requires_grad_()
    out = Solve.apply(y0, *params)
    (out**2).sum().backward()
    return {"out": out.detach().numpy(), "y0": y0.grad.numpy(), "w": params[0].grad.numpy()}


def gaussian_process(torch):
    """Maximum likelihood of a Gaussian process by Cholesky factors, and its prediction."""
    x = torch.linspace(-1, 1, 8, dtype=torch.float64).unsqueeze(-1)
    y = torch.sin(3 * x).squeeze(-1)
    log_scale = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    log_noise = torch.full((1,), -2.0, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([log_scale, log_noise], lr=0.1)

    def kernel(a, b):
        return torch.exp(-0.5 * torch.cdist(a, b).pow(2) / log_scale.exp() ** 2)

    losses = []
    for _ in range(5):
        K = kernel(x, x) + log_noise.exp() * torch.eye(8, dtype=torch.float64)
        L = torch.linalg.cholesky(K)
        alpha = torch.cholesky_solve(y.unsqueeze(-1), L)
        loss = 0.5 * (y @ alpha).squeeze() + L.diagonal().log().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        mean = kernel(torch.zeros(1, 1, dtype=torch.float64), x) @ alpha
    return {"losses": losses, "mean": mean.numpy(), "scale": log_scale.item()}


def transforms(torch):
    """Per-example gradients, ensembles and Jacobians by torch.func; derivatives by torch.autograd.functional."""
    func, A = torch.func, torch.autograd.functional
    model = initialised(torch, torch.nn.Linear(3, 2))
    params = {k: v.detach() for k, v in model.named_parameters()}
    x, y = data(torch, 4, 3), data(torch, 4, 2, seed=1)

    def loss(p, a, b):
        return torch.nn.functional.mse_loss(func.functional_call(model, p, (a.unsqueeze(0),)), b.unsqueeze(0))

    per_example = func.vmap(func.grad(loss), in_dims=(None, 0, 0))(params, x, y)
    models = [initialised(torch, torch.nn.Linear(3, 2), seed) for seed in range(3)]
    stacked, buffers = func.stack_module_state(models)
    outputs = torch.vmap(lambda p, b, a: func.functional_call(model, (p, b), (a,)), in_dims=(0, 0, None))(
        stacked, buffers, x
    )

    def f(a, b):
        return (a * b.sin()).sum(0)

    a, b = data(torch, 2, 3), data(torch, 2, 3, seed=2)
    ja, jb = A.jacobian(f, (a, b))
    h = A.hessian(lambda t: (t**3).sum(), a[0])
    value, product = A.vjp(f, (a, b), torch.ones(3, dtype=torch.float64))
    _, pushed = A.jvp(f, (a, b), (torch.ones_like(a), torch.zeros_like(b)))
    _, hv = A.hvp(lambda t: (t**4).sum(), a, b)
    _, vh = A.vhp(lambda t: (t**4).sum(), a, b)
    return {
        "weight": per_example["weight"].numpy(), "outputs": outputs.detach().numpy(), "ja": ja.numpy(), "jb": jb.numpy(),
        "h": h.numpy(), "value": value.numpy(), "p0": product[0].numpy(), "p1": product[1].numpy(), "jvp": pushed.numpy(),
        "hv": hv.numpy(), "vh": vh.numpy(),
        "jacfwd": func.jacfwd(torch.tanh)(a[0]).numpy(),
    }  # fmt: skip


def private(torch):
    """DP-SGD: gradients clipped for each example, with noise of the program's own."""
    model = initialised(torch, torch.nn.Linear(3, 1))
    params = {k: v.detach() for k, v in model.named_parameters()}
    x, y = data(torch, 6, 3), data(torch, 6, 1, seed=1)

    def loss(p, a, b):
        return ((torch.func.functional_call(model, p, a) - b) ** 2).sum()

    for step in range(3):
        grads = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(params, x, y)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in grads.values()]).norm(dim=0)
        scale = (1.0 / (norms + 1e-6)).clamp(max=1.0)
        for k, g in grads.items():
            clipped = torch.einsum("i,i...->...", scale, g)
            params[k] = params[k] - 0.1 * (clipped + 0.01 * data(torch, *params[k].shape, seed=step)) / len(x)
    return {k: v.numpy() for k, v in params.items()}


def hooks(torch):
    """Grad-CAM by hooks on a layer, and LoRA beside a frozen one."""
    nn, F = torch.nn, torch.nn.functional
    conv = initialised(torch, nn.Conv2d(1, 3, 3, padding=1))
    head = initialised(torch, nn.Linear(3, 2), 1)
    seen = {}
    first = conv.register_forward_hook(lambda m, i, o: seen.__setitem__("map", o))
    second = conv.register_full_backward_hook(lambda m, gi, go: seen.__setitem__("grad", go[0]))
    image = data(torch, 1, 1, 6, 6).requires_grad_()
    scores = head(F.relu(conv(image)).mean((2, 3)))
    scores[0, scores.argmax()].backward()
    cam = F.relu((seen["grad"].mean((2, 3), keepdim=True) * seen["map"]).sum(1)).detach()
    first.remove()
    second.remove()

    class LoRA(nn.Module):
        def __init__(self, base, rank=2):
            super().__init__()
            self.base = base
            for p in base.parameters():
                p.requires_grad = False
            self.down = nn.Parameter(data(torch, rank, base.in_features, scale=0.1))
            self.up = nn.Parameter(torch.zeros(base.out_features, rank, dtype=torch.float64))

        def forward(self, x):
            return self.base(x) + x @ self.down.T @ self.up.T

    lora = LoRA(head)
    optimizer = torch.optim.Adam(filter(lambda p: p.requires_grad, lora.parameters()), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        lora(data(torch, 4, 3)).pow(2).mean().backward()
        optimizer.step()
    return {"cam": cam.numpy(), "image": image.grad.numpy(), **values(lora)}


def tensors(torch):
    """Everyday handling of tensors: legacy constructors, indexing, in-place writes, types, sorting."""
    x = torch.Tensor([[1, 2], [3, 4]])
    y = torch.FloatTensor(2, 3).fill_(0.5)
    ids = torch.LongTensor([1, 0])
    z = torch.zeros(2, 3).scatter_(1, ids.unsqueeze(1), 1.0)
    z[ids == 1, 2] = 7
    w = x.new_ones(2, 2).type(torch.float64)
    w.data[0] = 3
    values_, order = torch.sort(data(torch, 6), descending=True)
    top = torch.topk(values_, 2)
    mask = values_ > 0
    size = x.size()
    v = torch.arange(6).reshape(2, 3)
    v[:, 1:] += 10
    packed = torch.nn.functional.one_hot(ids, 3)
    u, s, vh = torch.linalg.svd(data(torch, 3, 3))
    return {
        "x": x.numpy(), "y": y.numpy(), "z": z.numpy(), "w": w.numpy(), "order": order.numpy(), "top": top.values.numpy(),
        "masked": values_[mask].numpy(), "count": size.numel(), "dims": list(size), "v": v.numpy(), "packed": packed.numpy(),
        "s": s.numpy(), "types": [x.type(), ids.type(), y.double().type()], "contiguous": v.t().is_contiguous(),
        "bool": bool((u @ torch.diag(s) @ vh).allclose(data(torch, 3, 3))),
        "where": torch.where(v > 3, v, torch.zeros_like(v)).numpy(), "mean": v.float().mean(dim=1, keepdim=True).numpy(),
        "isinstance": [isinstance(x, torch.Tensor), isinstance(ids, torch.LongTensor), torch.is_tensor(1)],
        "shape": tuple(torch.nn.utils.parameters_to_vector([x, y]).shape), "numbers": np.asarray(v.tolist()),
        "norm": float(x.norm()), "std": x.std().item(), "repr": str(size),
    }  # fmt: skip


PROGRAMS = [pinn, maml, neural_ode, gaussian_process, transforms, private, hooks, tensors]
