"""Programs with sparse tensors and gradients, and those that draw: graphs, words, flows and policies."""

import numpy as np

from porting.common import data, initialised, labels, values


def word2vec(torch):
    """Skip-grams with negative samples, whose gradients are sparse, by SparseAdam."""
    nn, F = torch.nn, torch.nn.functional

    class SkipGram(nn.Module):
        def __init__(self, words, size):
            super().__init__()
            self.center = nn.Embedding(words, size, sparse=True)
            self.context = nn.Embedding(words, size, sparse=True)

        def forward(self, center, context, negative):
            v = self.center(center)
            positive = F.logsigmoid((v * self.context(context)).sum(1))
            others = F.logsigmoid(-torch.bmm(self.context(negative), v.unsqueeze(2)).squeeze(2)).sum(1)
            return -(positive + others).mean()

    model = initialised(torch, SkipGram(12, 5))
    optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=0.05)
    random = np.random.RandomState(1)
    losses = []
    for _ in range(6):
        batch = [torch.from_numpy(random.randint(0, 12, shape)) for shape in ((8,), (8,), (8, 3))]
        optimizer.zero_grad()
        loss = model(*batch)
        loss.backward()
        assert model.center.weight.grad.is_sparse
        optimizer.step()
        losses.append(loss.item())
    grad = model.center.weight.grad.coalesce()
    rows = grad.indices()[0].tolist()
    return {"losses": losses, "rows": rows, "grad": grad.values().numpy(), **values(model)}


def bag_of_words(torch):
    """Sentences of different lengths as bags of words, with sparse gradients, by SGD and Adagrad."""
    nn = torch.nn
    bag = initialised(torch, nn.EmbeddingBag(10, 4, mode="mean", sparse=True))
    head = initialised(torch, nn.Linear(4, 3), seed=1)
    optimizers = [torch.optim.Adagrad(bag.parameters(), lr=0.1), torch.optim.SGD(head.parameters(), lr=0.1)]
    text, offsets, target = labels(torch, 14, 10), torch.tensor([0, 3, 4, 9]), labels(torch, 4, 3, seed=2)
    losses = []
    for _ in range(5):
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = nn.functional.cross_entropy(head(bag(text, offsets)), target)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "bag": values(bag)["weight"], "head": values(head)["weight"]}


def edges_of(torch, nodes=9, seed=3):
    """A random graph without loops, in both directions: (2, edges)."""
    random = np.random.RandomState(seed)
    upper = np.triu(random.rand(nodes, nodes) < 0.35, 1)
    return torch.from_numpy(np.stack(np.nonzero(upper | upper.T)))


def gcn(torch):
    """A graph convolutional network with a normalised sparse adjacency matrix."""
    nn, F = torch.nn, torch.nn.functional
    nodes, edges = 9, edges_of(torch)
    loops = torch.arange(nodes).repeat(2, 1)
    index = torch.cat([edges, loops], dim=1)
    adjacency = torch.sparse_coo_tensor(
        index, torch.ones(index.shape[1], dtype=torch.float64), (nodes, nodes)
    ).coalesce()
    degree = torch.sparse.sum(adjacency, dim=1).to_dense()
    scale = degree.pow(-0.5)
    row, col = adjacency.indices()
    adjacency = torch.sparse_coo_tensor(
        adjacency.indices(), scale[row] * adjacency.values() * scale[col], (nodes, nodes)
    )

    class Layer(nn.Module):
        def __init__(self, size, out):
            super().__init__()
            self.weight = nn.Parameter(torch.empty(size, out))
            self.bias = nn.Parameter(torch.zeros(out))

        def forward(self, x, adjacency):
            return torch.spmm(adjacency, x @ self.weight) + self.bias

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = Layer(5, 6), Layer(6, 3)

        def forward(self, x, adjacency):
            return F.log_softmax(self.second(F.relu(self.first(x, adjacency)), adjacency), dim=1)

    model, x, y = initialised(torch, Network()), data(torch, nodes, 5), labels(torch, nodes, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05, weight_decay=5e-4)
    known = torch.tensor([0, 2, 5, 7])
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = F.nll_loss(model(x, adjacency)[known], y[known])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "dense": adjacency.to_dense().numpy(), **values(model)}


def gat(torch):
    """Graph attention: a sparse softmax over the neighbours of each node."""
    nn, F = torch.nn, torch.nn.functional
    nodes, edges = 9, edges_of(torch, seed=4)
    edges = torch.cat([edges, torch.arange(nodes).repeat(2, 1)], dim=1)

    class Attention(nn.Module):
        def __init__(self, size, out):
            super().__init__()
            self.linear = nn.Linear(size, out, bias=False)
            self.source, self.target = nn.Parameter(torch.empty(out)), nn.Parameter(torch.empty(out))

        def forward(self, x):
            h = self.linear(x)
            scores = F.leaky_relu((h @ self.target)[edges[0]] + (h @ self.source)[edges[1]], 0.2)
            weights = torch.sparse.softmax(torch.sparse_coo_tensor(edges, scores, (nodes, nodes)), dim=1)
            return torch.sparse.mm(weights, h)

    model = initialised(torch, nn.Sequential(Attention(5, 6), nn.ELU(), Attention(6, 3)))
    x, y = data(torch, nodes, 5), labels(torch, nodes, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, **values(model)}


def flow(torch):
    """A normalising flow of affine couplings, fitted by maximum likelihood."""
    nn = torch.nn
    distributions = torch.distributions

    class Coupling(nn.Module):
        def __init__(self, mask):
            super().__init__()
            self.register_buffer("mask", torch.tensor(mask, dtype=torch.float64))
            self.net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4))

        def inverse(self, x):
            shift, scale = self.net(x * self.mask).chunk(2, dim=-1)
            scale = torch.tanh(scale) * (1 - self.mask)
            z = x * self.mask + (1 - self.mask) * (x - shift) * torch.exp(-scale)
            return z, -scale.sum(-1)

    layers = initialised(torch, nn.ModuleList([Coupling([1.0, 0.0]), Coupling([0.0, 1.0]), Coupling([1.0, 0.0])]))
    base = distributions.Independent(distributions.Normal(torch.zeros(2).double(), torch.ones(2).double()), 1)
    points = data(torch, 32, 2)
    points = torch.stack([points[:, 0], points[:, 1] + points[:, 0] ** 2], dim=1)
    optimizer = torch.optim.Adam(layers.parameters(), lr=0.02)
    losses = []
    for _ in range(6):
        z, total = points, torch.zeros(32, dtype=torch.float64)
        for layer in layers:
            z, change = layer.inverse(z)
            total = total + change
        loss = -(base.log_prob(z) + total).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, **values(layers)}


def actor_critic(torch):
    """One-step actor-critic on a walk along a line; actions come from NumPy, so that both libraries take the same."""
    nn, F = torch.nn, torch.nn.functional
    Categorical = torch.distributions.Categorical

    class Agent(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.policy, self.value = nn.Linear(7, 8), nn.Linear(8, 2), nn.Linear(8, 1)

        def forward(self, state):
            h = torch.relu(self.body(state))
            return Categorical(logits=self.policy(h)), self.value(h).squeeze(-1)

    agent = initialised(torch, Agent())
    optimizer = torch.optim.RMSprop(agent.parameters(), lr=0.01)
    random = np.random.RandomState(0)
    states = torch.eye(7, dtype=torch.float64)
    losses, returns = [], []
    for _ in range(4):
        place, logs, critics, rewards, entropies = 3, [], [], [], []
        for _ in range(12):
            policy, critic = agent(states[place])
            action = int(random.rand() < policy.probs[1].item())
            logs.append(policy.log_prob(torch.tensor(action)))
            entropies.append(policy.entropy())
            critics.append(critic)
            place = min(max(place + 2 * action - 1, 0), 6)
            rewards.append(1.0 if place == 6 else -0.05)
        total, targets = 0.0, []
        for reward in reversed(rewards):
            total = reward + 0.9 * total
            targets.insert(0, total)
        targets, critics = torch.tensor(targets, dtype=torch.float64), torch.stack(critics)
        advantage = (targets - critics).detach()
        loss = (
            -(torch.stack(logs) * advantage).mean()
            + F.smooth_l1_loss(critics, targets)
            - 0.01 * torch.stack(entropies).mean()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        returns.append(sum(rewards))
    return {"losses": losses, "returns": returns, **values(agent)}


PROGRAMS = [word2vec, bag_of_words, gcn, gat, flow, actor_critic]
