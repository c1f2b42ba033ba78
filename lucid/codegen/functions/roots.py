"""Square roots and their inverses, without the instructions of processors that take long.

`# minimax …` beside a table of coefficients stands for `python tools/minimax.py …`, the command that computes them.
"""

from lucid.codegen.floats import format_of, unsigned_bits, where_rare
from lucid.codegen.vectors import Function, Value

# Half of the bits of x taken from this are nearly those of 1/√x: to 1/28 of it.
HALVED = {"float": 0x5F375A86, "double": 0x5FE6EB50C7B537A9}
# (1/√(1 - e) - 1) / e
# minimax "((1-x)**(-1/mpf(2)) - 1)/x" "[-0.071, 0.0685]" --degree 4 --weight "x" --precision 24
# minimax "((1-x)**(-1/mpf(2)) - 1)/x" "[-0.071, 0.0685]" --degree 4 --weight "x"
RSQRT = {
    "float": (0.5, 0.3749977, 0.31250232, 0.27496725, 0.24636759),
    "double": (0.49999999771051873, 0.3749976991304548, 0.31250232699552544, 0.27496725176435893, 0.246367582017616),
}
SQRT_NORMAL = -960  # from this power of 2 on, what is missing of a root in double is no subnormal number


def _inverse_root(f: Function, x: Value) -> Value:
    """1/√x of normal numbers, nearly: in float within a unit in the last place, in double to 30 binary digits."""
    of = x.type.of
    guess = f.from_bits(HALVED[of] - (unsigned_bits(f, x) >> 1), of)
    e = f.fma(x * guess, -guess, 1.0)
    return f.fma(guess * e, f.polynomial(e, RSQRT[of]), guess)


def _is_outside(f: Function, x: Value, exponent: int) -> Value:
    """Whether numbers are less than a power of 2, or infinite, or not numbers."""
    format = format_of(x)
    low, infinite = exponent + format.bias << format.digits, 2 * format.bias + 1 << format.digits
    return unsigned_bits(f, x) - low >= infinite - low


def rsqrt(f: Function, x: Value) -> Value:
    """1 / √x."""
    found = _inverse_root(f, x)
    if x.type.of == "double":
        found = f.fma(found * f.fma(x * found, -found, 1.0), 0.5, found)
    return where_rare(f, _is_outside(f, x, 1 - format_of(x).bias), lambda: 1.0 / f.sqrt(x), found)


def sqrt(f: Function, x: Value) -> Value:
    """√x, rounded once.

    Processors take that of float as fast as they multiply a few times, that of double not: what is missing of a root is
    known exactly, and so is the correction by it (Markstein).
    """
    if x.type.of == "float":
        return f.sqrt(x)
    inverse = _inverse_root(f, x)
    root, half = x * inverse, inverse * 0.5
    rest = f.fma(root, -half, 0.5)
    root, half = f.fma(root, rest, root), f.fma(half, rest, half)
    found = f.fma(f.fma(root, -root, x), half, root)
    is_rare = _is_outside(f, x, SQRT_NORMAL) & ~x.equals(0.0)
    return where_rare(f, is_rare, lambda: f.sqrt(x), found)
