"""Says what of a program's runs is wrong, and which differences are known and meant."""

import random
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from holes import NOT_A_GRADIENT

from fuzz.modes import ALWAYS, EVERY, MODES
from fuzz.pool import CrashError
from fuzz.program import Program, array
from fuzz.structure import program as generated
from fuzz.subject import STEP, Comparison, Subject

MODES_EACH = 4  # of those that are not always run
# Relative to the largest element; finite differences have six digits.
TOLERANCE = {"values": 3e-10, "derivatives": 1e-7, "narrow": 5e-3, "differences": 2e-4}
LARGE = 1e8  # derivatives above it say more about the point than about the program

# What a mode may refuse, by the words it does it with.
REFUSALS = {
    "overwritten by an in-place operation": "the tape needs a value that the program has written over",
    "modified by an in-place operation": "the tape needs a value that the program has written over",
    "shares memory with one into which a transform writes": "a detached tensor cannot show every example",
    "is used after the memory that it": "a graph cannot show memory that was written to through a detached tensor",
    "f overwrites a value that its gradient needs": "the tape needs a value that the program has written over",
    "has views, which are seen through its shape": "inside transforms, a detached tensor counts as a view",
}


@dataclass(frozen=True)
class Explained:
    """A difference that is meant: where it may appear, and why."""

    mode: str  # a pattern for the mode
    op: str  # a pattern for the statement
    what: str  # a pattern for the quantity or the error
    reason: str
    when: Callable[[Program], bool] = lambda program: True  # where it may appear


def not_finite(program: Program) -> bool:
    return not program.finite


def is_narrow_program(program: Program) -> bool:
    return program.narrow


def has_equals(program: Program) -> bool:
    """Whether an operand has equal elements, or may get them."""
    return any(np.unique(a).size < a.size for a in program.inputs.values()) or len(program.lines) > 1


SINGULAR = r"sqrt|\*\* 0\.5|log|norm|asin|acos|atanh|arcsin|arccos|arctanh|erfinv|pow|entr|recip|logit|div"
ROUGH = "PyTorch has six digits, or no derivative at all"
EXPLAINED = (
    Explained("^torch$", "^ctc_loss$", "gradient|curvature", "PyTorch takes for granted that log_softmax comes before"),
    Explained("^torch$", r"^(logical_|eq_|ne_|lt_|le_|gt_|ge_|less|greater|not_equal)", "gradient|curvature",
              "PyTorch passes gradients through truth values that are written as numbers"),
    Explained("^torch$", r"^(max_unpool\dd|put_?|scatter_?|index_put_?|index_copy_?)$|\[.*arg(max|min)|\{w\}\[\{i\}\]", "gradient|curvature",
              "where several elements go to one place, only the one that stays there gets a gradient"),
    Explained("^torch$", "bessel|airy|^(jv|yv|iv|kv)", "", ROUGH),
    Explained("^torch$", "gamma|^(i0|i1|i0e|i1e|zeta)_?$", "values", ROUGH),
    Explained("^torch$", "^(sign|sgn)_?$", "values", "the sign of what is not a number is not a number; PyTorch says 0"),
    Explained("^torch$", "^local_response_norm$", "values", "PyTorch cuts averages of integers down to integers"),
    Explained("^torch$", "sort|topk|kthvalue|^mode", "values",
              "of equal elements, PyTorch leaves open which comes first"),
    Explained("^torch$", "median", "values", "PyTorch reads memory that is not there if the operand is expanded"),
    Explained("^torch$", "linspace|logspace", "values", "PyTorch takes the steps in the type of the result"),
    Explained("^torch$", "sum_to_size", "shared memory", "a 0-d tensor that is its own sum is itself, as all others are"),
    Explained("^torch$", "^as_strided_scatter$", "gradient|curvature",
              "PyTorch gives the gradient to the elements that were written over"),
    Explained("", "sort|median|kthvalue|topk|quantile", "gradient|tangents|curvature",
              "among equal elements a direction can look smooth in which the order changes", has_equals),
    Explained("", SINGULAR, "(gradient|tangents|curvature).*nan",
              "infinity times 0: in which order derivatives are multiplied decides whether it appears"),
    Explained("graph", "linspace|logspace", "after a change", "ends from outside are read as numbers, once"),
    Explained("graph|vmap", "bincount|one_hot", "NeedsValueError", "how many there are depends on the values"),
    Explained("graph|vmap", "bincount", "PositionError: bincount with a minlength", "minlength must be above all numbers"),
    Explained("^torch$", "_polynomial_", "values", "in PyTorch, what is not a number becomes one", not_finite),
    Explained("^torch$", "^binary_cross_entropy$", "gradient", "by the target it is that of the values, whose logarithms are bounded"),
    Explained("^torch$", "^(all|any)_?$", "type", "PyTorch keeps uint8 for the sake of old programs"),
    Explained("^torch$", "bucketize|searchsorted", "values", "bounds in no order have no places"),
    Explained("^torch$", "^ctc_loss$", "values", "a target that is the blank label is taken at its word"),
    Explained("^torch$", "nextafter", "gradient", "PyTorch's is 0 where both are equal"),
    Explained("^torch$", "conj", "values|gradient|curvature", "a copy; in PyTorch a real tensor is its own conjugate, in the same memory"),
    Explained("^torch$", "^(elu|celu|selu|prelu)_?$", "curvature", "at 0 it jumps"),
    Explained("^torch$", "einsum", "type", "PyTorch sums small integers of one operand as int64"),
    Explained("^torch$", "index_reduce", "gradient|curvature", "PyTorch's of complex products lacks a conjugate"),
    Explained("^torch$", "arg(min|max)", "values", "elements that differ by rounding alone"),
    Explained("vmap", "bucketize|searchsorted", "values", "bounds that differ by rounding alone"),
    Explained("^torch$", "trapez|trapz", "values", "PyTorch takes half of the ends away, which leaves nan of infinity", not_finite),
    Explained("^torch$", "cumprod", "gradient|curvature", "PyTorch divides by elements, also where these products vanish", is_narrow_program),
    Explained("^torch$", "^cdist$", "values", "for p = 0, what is not a number differs from 0, as in norm; PyTorch says nan", not_finite),
    Explained("^torch$", "^multi_margin_loss$", "values", "PyTorch takes what is not a number for 0", not_finite),
    Explained("^torch$", "^(clamp|clip)", "values", "PyTorch wraps bounds around that the type does not hold"),
    Explained("^torch$", "index_copy_", "values", "PyTorch reads what it has just written, where memory overlaps"),
    Explained("^torch$", "inv_ex|solve_ex", "values", "of singular matrices nan; PyTorch leaves what elimination left"),
    Explained("^torch$", "linalg|lu_|qr|svd|cholesky|interpolate|householder", "values", "sums of infinity and nan by other ways", not_finite),
    Explained("", "[cp]dist|matrix_norm", "gradient|tangents|curvature", "sums of many slopes in single precision", is_narrow_program),
    Explained("vmap of jvp", "normalize", "tangents", "slopes of 1e12, at 0, that cancel"),
    Explained("^(tape|second|jvp|linearize)$", r"relu|norm|abs|max|min|unique|shrink|hard", "^(gradient.*|tangents|curvature): ",
              "a kink, at 0 or among equal elements, that another function makes smooth", has_equals),
    Explained("", "eigvalsh|eigh|svd", "curvature.*nan", "where values meet there is no second derivative"),
    Explained("^torch$", "scatter_reduce", "gradient|curvature",
              "PyTorch's gradient of products is wrong where there are fewer indices than values"),
    Explained("^torch$", "fmax|fmin", "gradient|curvature",
              "PyTorch gives half of the gradient to what is not a number and was not chosen", not_finite),
    Explained("^torch$", "where", "gradient|curvature",
              "PyTorch's gradient is nan where the branch that is not chosen is singular; here it is 0"),
)  # fmt: skip


@dataclass(frozen=True)
class Finding:
    mode: str
    what: str  # the quantity, or the kind of error
    op: str
    detail: str
    program: Program
    number: int = -1

    @property
    def signature(self) -> tuple[str, str, str]:
        return self.mode, self.what, self.op

    def reason(self) -> str:
        """Why the difference is meant; empty if nobody has said."""
        for e in EXPLAINED:
            pairs = ((e.mode, self.mode), (e.what, f"{self.what}: {self.detail}"))
            fits = all(re.search(pattern, text) for pattern, text in pairs) and e.when(self.program)
            # In a program that was made small, every line is needed.
            if fits and any(re.search(e.op, op) for op in (self.op, *(line.op for line in self.program.lines))):
                return e.reason
        return ""


def difference(c: Comparison, program: Program) -> str:
    """What is wrong with a quantity, or nothing."""
    narrow, finite = program.narrow, program.finite
    if len(c.got) != len(c.want):
        return f"{len(c.got)} results, expected {len(c.want)}"
    for k, (got, want) in enumerate(zip(c.got, c.want, strict=True)):
        if isinstance(want, str | bool):
            if got != want:
                return f"{got}, expected {want}"
            continue
        a, b = array(got), array(want)
        if a.shape != b.shape:
            return f"result {k} has shape {a.shape}, expected {b.shape}"
        kind = "narrow" if narrow else "differences" if c.finite_differences else "derivatives"
        kind = "values" if kind == "derivatives" and c.what.startswith("values") else kind
        values = c.what.startswith("values")
        exact = values and finite
        if a.size and not near(a, b, TOLERANCE[kind], finite or values, exact):
            return f"result {k} is {np.array2string(a, threshold=20)}, expected {np.array2string(b, threshold=20)}"
    return ""


def near(a: Any, b: Any, tolerance: float, finite: bool, exact: bool = False) -> bool:
    """Whether arrays agree; if `exact`, then in what is infinite and what is not a number too.

    Of derivatives at infinity, products of 0 and inf are left out: they depend on the order.
    """
    a, b = (np.asarray(x, complex if "c" in (a.dtype.kind, b.dtype.kind) else float) for x in (a, b))
    with np.errstate(all="ignore"):
        scale = 1 + max(np.abs(x[np.isfinite(x)]).max(initial=0.0) for x in (a, b))
        if scale > LARGE:
            return True
        known = np.isfinite(a) | np.isfinite(b) if finite else np.isfinite(a) & np.isfinite(b)
        # Of infinities, sums and products may differ.
        lost = np.isnan(a) & np.isnan(b) if exact else ~known
        same = (np.abs(a - b) <= tolerance * scale) | (a == b) | lost
    return bool(np.all(same))


def run_modes(names: Sequence[str], program: Program, seed: int) -> Iterator[Finding]:
    """What is wrong in each mode: the first thing."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            subject = Subject(program, seed)
        except Exception as error:
            yield Finding("eager", type(error).__name__, program.op, words_of(error), program, seed)
            return
        for name in names:
            try:
                found = first_difference(name, subject.for_mode(name))
            except Exception as error:
                if any(words in str(error) for words in REFUSALS):
                    continue
                found = Finding(name, type(error).__name__, program.op, words_of(error), program, seed)
            if found:
                yield found


def first_difference(name: str, subject: Subject) -> Finding | None:
    program = subject.program
    for c in EVERY[name].run(subject):
        found = difference(c, program)
        if found and c.finite_differences and not are_steady(c, name, subject):
            continue
        if found:
            return Finding(name, c.what, c.op or program.op, found, program, subject.seed)
    return None


def are_steady(c: Comparison, name: str, subject: Subject) -> bool:
    """Whether differences stay what they are for smaller steps; at kinks, and where a bend is narrow, they do not."""
    closer = Subject(subject.program, subject.seed, step=STEP / 8).for_mode(name)
    if any(not np.all(np.abs(array(w)) < LARGE) for w in c.want):
        return False
    again = next((other for other in EVERY[name].run(closer) if other.what == c.what), None)
    if again is None or len(again.want) != len(c.want):
        return False
    return all(near(array(a), array(b), 1e-3, finite=True) for a, b in zip(again.want, c.want, strict=True))


def words_of(error: BaseException) -> str:
    return re.sub(r"\s+", " ", str(error))[:300]


def chosen_modes(program: Program, number: int, seed: int) -> list[str]:
    """The modes that this program runs in: some always, the others in turn."""
    fit = [n for n, mode in MODES.items() if (program.batchable or not mode.traced) and fits(n, program)]
    choose = random.Random(f"modes {seed}:{number}")
    return [*ALWAYS, *choose.sample(fit, min(MODES_EACH, len(fit)))]


def fits(name: str, program: Program) -> bool:
    if name == "torch":
        return program.in_torch
    if MODES[name].order == 2 and any(line.row in NOT_A_GRADIENT for line in program.lines):
        return False  # in which order it is differentiated makes a difference
    return bool(program.floats) or name in ("vmap", "graph")


def judged(seed: int, number: int, modes: Sequence[str] | None = None) -> tuple[Program, list[str], list[Finding]]:
    """Make a program and run it: the program, its modes, and what is wrong."""
    try:
        program = generated(seed, number)
    except CrashError as crash:
        kind = type(crash.error).__name__
        found = Finding("eager", kind, crash.program.op, words_of(crash.error), crash.program, number)
        return crash.program, ["eager"], [found]
    names = chosen_modes(program, number, seed) if modes is None else list(modes)
    if program.in_torch and "torch" not in names and modes is None and number % 2:
        names[-1] = "torch"
    return program, names, list(run_modes(names, program, number))
