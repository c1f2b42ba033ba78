"""How far to go from a matrix along another one: derivatives that are made from values elsewhere need to choose."""

from lucid.linalg.matrices import lapack, real_for_each

# The factor that makes each matrix of `t` as long as that of `x`, or as `least` if that is longer. Results do not depend
# on it but for rounding, so it has no derivative.
balance = lapack("balance", operands=("x", "t"), abstract=lambda x, t, least: real_for_each(x, t, size=(1, 1)))
