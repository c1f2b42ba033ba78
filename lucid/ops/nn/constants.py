"""Numbers by which the gates of both forms of GELU are computed."""

from math import pi, sqrt

# log(Φ(x) / (1 - Φ(x))) = x · p(x²) for |x| <= 6, up to 1e-7 in x Φ(x), by a weighted minimax fit; Φ is the normal
# distribution function. Beyond, the last value of p serves: Φ is then 0 or 1 to all digits of single precision.
LOG_ODDS = (
    3.672020629982869e-09,
    -2.697662140062047e-07,
    7.98778128128058e-06,
    -1.1087206340766435e-04,
    -6.480192668330536e-05,
    0.07266623381461154,
    1.5957696131309553,
)
# x · sigmoid(v) for v = a x + b x³ is x / 2 · (1 + tanh(√(2/π) (x + 0.044715 x³))).
A = 2 * sqrt(2 / pi)
B = 0.044715 * A
