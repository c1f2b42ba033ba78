"""Programs as users of HIPS autograd write them, each a function of `autograd.numpy` and of the package with `grad`."""

import numpy as onp


def logistic_regression(np, ag):
    """A loss of a prediction by loops of gradient steps, the gradient by a dict."""
    x = onp.array([[0.52, 1.12, 0.77], [0.88, -1.08, 0.15], [0.52, 0.06, -1.30], [0.74, -2.49, 1.39]])
    targets = onp.array([True, True, False, True])

    def predictions(weights):
        return 0.5 * (np.tanh(np.dot(x, weights["w"]) + weights["b"]) + 1)

    def loss(weights):
        p = predictions(weights)
        return -np.sum(np.log(p * targets + (1 - p) * (1 - targets)))

    weights = {"w": onp.zeros(3), "b": 0.1}
    gradient = ag.grad(loss)
    for _ in range(20):
        g = gradient(weights)
        weights = {k: weights[k] - 0.05 * g[k] for k in weights}
    return {"w": onp.asarray(weights["w"]), "loss": float(loss(weights))}


def neural_network(np, ag):
    """Parameters in nested lists of tuples, Adam by hand over flat vectors."""
    random = onp.random.RandomState(0)
    params = [(0.3 * random.randn(m, n), 0.3 * random.randn(n)) for m, n in [(2, 8), (8, 8), (8, 3)]]
    inputs, labels = random.randn(20, 2), onp.eye(3)[random.randint(0, 3, 20)]

    def log_softmax(x):
        shifted = x - np.max(x, axis=1, keepdims=True)
        return shifted - np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))

    def objective(params):
        x = inputs
        for w, b in params[:-1]:
            x = np.tanh(np.dot(x, w) + b)
        w, b = params[-1]
        outputs = log_softmax(np.dot(x, w) + b)
        norm = sum([np.sum(w**2) + np.sum(b**2) for w, b in params])
        return -np.mean(np.sum(outputs * labels, axis=1)) + 1e-3 * norm

    m = [(onp.zeros_like(w), onp.zeros_like(b)) for w, b in params]
    v = [(onp.zeros_like(w), onp.zeros_like(b)) for w, b in params]
    losses = []
    for t in range(1, 6):
        value, grads = ag.value_and_grad(objective)(params)
        losses.append(float(value))
        new = []
        for i, (layer, gradient) in enumerate(zip(params, grads)):
            both = []
            for j in range(2):
                g = onp.asarray(gradient[j])
                m[i] = tuple(0.9 * a + 0.1 * g if k == j else a for k, a in enumerate(m[i]))
                v[i] = tuple(0.999 * a + 0.001 * g**2 if k == j else a for k, a in enumerate(v[i]))
                step = (m[i][j] / (1 - 0.9**t)) / (onp.sqrt(v[i][j] / (1 - 0.999**t)) + 1e-8)
                both.append(onp.asarray(layer[j]) - 0.05 * step)
            new.append(tuple(both))
        params = new
    return {"losses": losses, "w": onp.asarray(params[0][0])}


def tanh_derivatives(np, ag):
    """Derivatives of any order, element by element."""

    def tanh(x):
        return (1.0 - np.exp(-x)) / (1.0 + np.exp(-x))

    x = onp.linspace(-3, 3, 7)
    found, function = [], tanh
    for _ in range(5):
        found.append(onp.asarray(function(x)))
        function = ag.elementwise_grad(function)
    return {"derivatives": onp.stack(found)}


def gaussian_mixture(np, ag):
    """The log likelihood of a mixture in unconstrained parameters: logsumexp, solve, slogdet, Hessian-vector products."""
    data = onp.random.RandomState(0).randn(30, 2)

    def log_normal(x, mean, root):
        covariance = np.dot(root.T, root) + 0.1 * np.eye(2)
        apart = x - mean
        whitened = np.linalg.solve(covariance, apart.T).T
        return -0.5 * np.sum(apart * whitened, axis=1) - 0.5 * np.linalg.slogdet(covariance)[1]

    def objective(params):
        weights, means, roots = params
        weights = weights - np.log(np.sum(np.exp(weights)))
        parts = np.array([weights[k] + log_normal(data, means[k], roots[k]) for k in range(2)])
        top = np.max(parts, axis=0)
        return -np.sum(top + np.log(np.sum(np.exp(parts - top), axis=0)))

    params = (onp.array([0.1, -0.2]), onp.array([[0.5, 0.0], [-0.5, 0.3]]), onp.stack([onp.eye(2), 2 * onp.eye(2)]))
    for _ in range(3):
        g = ag.grad(objective)(params)
        params = tuple(onp.asarray(p) - 0.01 * onp.asarray(d) for p, d in zip(params, g))
    of_means = lambda m: objective((params[0], m, params[2]))
    product = ag.hessian_vector_product(of_means)(params[1], onp.ones((2, 2)))
    return {"means": params[1], "roots": params[2], "product": onp.asarray(product)}


def ode_sensitivity(np, ag):
    """Derivatives of a simulation by its parameters; the Jacobian and the Hessian of the end by the beginning."""

    def simulate(y0, theta):
        y = y0
        for _ in range(20):
            x, v = y[0], y[1]
            y = y + 0.05 * np.array([v, theta[0] * (1 - x**2) * v - theta[1] * x])
        return y

    y0, theta = onp.array([1.0, 0.5]), onp.array([1.2, 0.8])
    return {
        "end": onp.asarray(simulate(y0, theta)),
        "jacobian": onp.asarray(ag.jacobian(simulate)(y0, theta)),
        "by theta": onp.asarray(ag.jacobian(simulate, 1)(y0, theta)),
        "hessian": onp.asarray(ag.hessian(lambda t: np.sum(simulate(y0, t) ** 2))(theta)),
    }


def spectra(np, ag):
    """Fourier transforms, convolution, sorting, indexing and writing into slices by concatenation."""
    signal = onp.random.RandomState(0).randn(12)

    def loss(x):
        power = np.abs(np.fft.fft(x)) ** 2
        ordered = np.sort(x)[::-1]
        padded = np.pad(x, (2, 1), "constant")
        windows = np.stack([padded[i : i + 4] for i in range(12)])
        picked = x[onp.array([0, 3, 3])] * np.where(x[:3] > 0, x[:3], 0.1 * x[:3])
        mean = np.mean(np.concatenate([windows.ravel(), ordered]))
        return np.sum(power) / 10 + np.sum(picked) + mean + np.einsum("ij,ij->", windows, windows)

    return {"loss": float(loss(signal)), "grad": onp.asarray(ag.grad(loss)(signal))}


def gauss_newton(np, ag):
    """A fit by products with the matrix of Gauss and Newton, and products of tensors with derivatives."""
    times = onp.linspace(0.0, 1.0, 6)
    data = 2.0 * onp.exp(-1.5 * times)

    def residual(p):
        return p[0] * np.exp(-p[1] * times) - data

    p = onp.array([1.0, 1.0])
    for _ in range(8):
        product = ag.make_ggnvp(residual)(p)
        matrix = onp.stack([onp.asarray(product(e)) for e in onp.eye(2)])
        gradient = onp.asarray(ag.vector_jacobian_product(residual)(p, onp.asarray(residual(p))))
        p = p - onp.linalg.solve(matrix, gradient)
    weights = onp.arange(4.0).reshape(2, 2)
    return {
        "fit": p,
        "rate": float(ag.deriv(lambda t: p[0] * np.exp(-p[1] * t))(0.3)),
        "by name": float(ag.grad_named(lambda a, rate: a * np.exp(-rate), "rate")(2.0, 0.5)),
        "tensor": onp.asarray(ag.tensor_jacobian_product(lambda p: np.outer(p, p))(p, weights)),
        "bend": onp.asarray(ag.hessian_tensor_product(lambda p: np.sum(residual(p) ** 2))(p, onp.array([1.0, 0.0]))),
    }


PROGRAMS = [
    logistic_regression,
    neural_network,
    tanh_derivatives,
    gaussian_mixture,
    ode_sensitivity,
    spectra,
    gauss_newton,
]
