"""A small GPT, one character at a time, on the docstrings of Python's standard library."""

import ast
import math
import sysconfig
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from extras import BLUE, GREY, ORANGE, figure, save
from options import parsed
from progress import progress

import lucid
from lucid import nn

DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Size:
    """How large the model is, and how long it learns."""

    context: int = 64
    width: int = 96
    layers: int = 3
    heads: int = 4
    batch: int = 24
    steps: int = 600
    characters: int = 2_000_000


QUICK = Size(context=32, width=48, layers=2, batch=16, steps=120, characters=200_000)


def docstrings(limit: int) -> list[str]:
    """About `limit` characters of documentation, one string for each module, class and function, in ASCII."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    found: list[str] = []
    total = 0
    for path in sorted(folder.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            text = ast.get_docstring(node) if isinstance(node, DOCUMENTED) else None
            if text and text.isascii() and len(text) > 20:
                found.append(text)
                total += len(text)
        if total >= limit:
            break
    if not found:
        raise SystemExit(f"{folder} holds no source files with docstrings to learn from")
    return found


class Text:
    """Docstrings as numbers, one for each character, in a part to learn from and a part to test on."""

    def __init__(self, strings: list[str], rng: np.random.Generator) -> None:
        parts = [strings[k] for k in rng.permutation(len(strings))]
        whole = "\n\n".join(parts)
        self.characters = sorted(set(whole))
        number = {c: k for k, c in enumerate(self.characters)}
        self.numbers = np.array([number[c] for c in whole])
        self.learn, self.test = np.split(self.numbers, [len(self.numbers) * 9 // 10])

    def decoded(self, numbers: list[int]) -> str:
        return "".join(self.characters[k] for k in numbers)

    def single_entropy(self) -> float:
        """The loss of the best guess that knows only how often each character occurs."""
        counts = np.array(list(Counter(self.numbers.tolist()).values())) / len(self.numbers)
        return float(-(counts * np.log(counts)).sum())


def batch_of(numbers: np.ndarray, size: Size, rng: np.random.Generator) -> tuple[lucid.Tensor, lucid.Tensor]:
    """Random stretches of a text, and for each of their characters the one that follows."""
    starts = rng.integers(0, len(numbers) - size.context, (size.batch, 1))
    stretches = numbers[starts + np.arange(size.context + 1)]
    return lucid.tensor(stretches[:, :-1]), lucid.tensor(stretches[:, 1:])


class GPT(nn.Module):
    """Causal transformer layers over the sum of what each character is and where it stands."""

    def __init__(self, characters: int, size: Size) -> None:
        super().__init__()
        self.context = size.context
        self.what = nn.Embedding(characters, size.width)
        self.where = nn.Embedding(size.context, size.width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                size.width, size.heads, 4 * size.width, 0.0, "gelu", batch_first=True, norm_first=True
            )
            for _ in range(size.layers)
        )
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, characters, bias=False)
        for table in (self.what, self.where):
            nn.init.normal_(table.weight, std=0.05)

    def forward(self, numbers: lucid.Tensor) -> lucid.Tensor:
        x = self.what(numbers) + self.where(lucid.arange(numbers.shape[1]))
        for layer in self.layers:
            x = layer(x, is_causal=True)
        return self.head(self.norm(x))


def loss_of(model: GPT, inputs: lucid.Tensor, targets: lucid.Tensor) -> lucid.Tensor:
    return nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


@dataclass
class Result:
    """The loss of each step, the loss on text it has not seen at some steps, and what it writes."""

    losses: list[float]
    tested: dict[int, float]
    single_entropy: float
    samples: list[str]


def test_loss(model: GPT, text: Text, size: Size) -> float:
    """The mean over the same eight batches each time."""
    rng = np.random.default_rng(0)
    with lucid.no_grad():
        return float(np.mean([loss_of(model, *batch_of(text.test, size, rng)).item() for _ in range(8)]))


def train(model: GPT, text: Text, size: Size, rng: np.random.Generator) -> tuple[list[float], dict[int, float]]:
    optimizer = lucid.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    schedule = lucid.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=size.steps, pct_start=0.1)
    losses: list[float] = []
    tested = {0: test_loss(model, text, size)}
    for step in range(1, size.steps + 1):
        optimizer.zero_grad()
        loss = loss_of(model, *batch_of(text.learn, size, rng))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if step * 10 // size.steps != (step - 1) * 10 // size.steps:
            tested[step] = test_loss(model, text, size)
        progress(step, size.steps, f"loss {losses[-1]:.2f}, on new text {list(tested.values())[-1]:.2f}")
    return losses, tested


@lucid.no_grad()
def sample(model: GPT, text: Text, start: str, length: int, temperature: float = 0.7) -> str:
    """Go on from `start`, each character drawn by its probability, sharpened by a temperature below 1."""
    written = [text.characters.index(c) for c in start]
    for _ in range(length):
        logits = model(lucid.tensor([written[-model.context :]]))[0, -1]
        written.append(int(lucid.multinomial(nn.functional.softmax(logits / temperature, 0), 1).item()))
    return text.decoded(written)


def draw(result: Result, folder: Path) -> Path:
    made = figure(7.5, 4.4)
    axes = made.subplots()
    window = max(len(result.losses) // 40, 1)
    smooth = np.convolve(result.losses, np.ones(window) / window, "valid")
    axes.plot(result.losses, color=BLUE, alpha=0.25, lw=0.8)
    axes.plot(np.arange(len(smooth)) + window / 2, smooth, color=BLUE, label="text to learn from")
    axes.plot(list(result.tested), list(result.tested.values()), "o-", color=ORANGE, ms=4, label="new text")
    axes.axhline(result.single_entropy, color=GREY, ls="--", lw=1, label="frequencies of characters only")
    axes.set(xlabel="step", ylabel="loss per character, nats", title="A small GPT reads Python's docstrings")
    axes.grid(alpha=0.3)
    axes.legend()
    return save(made, folder, "chargpt")


def main(argv: Sequence[str] | None = None) -> Result:
    options = parsed(__doc__, argv)
    size = QUICK if options.quick else Size()
    rng = np.random.default_rng(options.seed)
    text = Text(docstrings(size.characters), rng)
    model = GPT(len(text.characters), size)
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{len(text.numbers)} characters of {len(text.characters)} kinds, {parameters} parameters")
    losses, tested = train(model, text, size, rng)
    starts = ["Return ", "Create a new ", "The "]
    samples = [sample(model, text, start, 40 if options.quick else 200) for start in starts]
    for written in samples:
        print(f"\n{'-' * 60}\n{written}")
    result = Result(losses, tested, text.single_entropy(), samples)
    *_, last = tested.values()
    bits = last / math.log(2)
    print(f"{'-' * 60}\nloss on new text: {tested[0]:.2f} before, {last:.2f} after, {bits:.2f} bits a character")
    draw(result, options.output)
    return result


if __name__ == "__main__":
    main()
