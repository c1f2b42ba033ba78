"""Transforms of functions: they compose in any order and to any depth."""

from lucid.func.batching import vmap as vmap
from lucid.func.forward import jvp as jvp
from lucid.func.jacobians import hessian as hessian
from lucid.func.jacobians import jacfwd as jacfwd
from lucid.func.jacobians import jacrev as jacrev
from lucid.func.reverse import grad as grad
from lucid.func.reverse import grad_and_value as grad_and_value
from lucid.func.reverse import value_and_grad as value_and_grad
from lucid.func.reverse import vjp as vjp
