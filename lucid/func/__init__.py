"""Transforms of functions: they compose in any order and to any depth."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

from lucid.api.names import having as _having
from lucid.native import compiled_first as _compiled_first

_compiled_first(__path__, "func")

from lucid.func.batching import vmap
from lucid.func.forward import jvp, linearize
from lucid.func.graphs import make_graph
from lucid.func.jacobians import hessian, hvp, jacfwd, jacobian, jacrev
from lucid.func.reverse import grad, grad_and_value, value_and_grad, vjp
from lucid.ir.program import Program

if TYPE_CHECKING:
    from lucid.checkpoints.programs import Exported, ExportError, export, load_exported
    from lucid.func.control import cond, scan, while_loop
    from lucid.func.custom import custom_jvp, custom_vjp
    from lucid.func.modules import functional_call, stack_module_state
    from lucid.func.sparse import Sparsity, hessian_pattern, jacobian_pattern, sparse_hessian, sparse_jacobian

# What most programs do not use loads on first use; what later rooms have is in the table of names.
_MODULES = {
    "control": "cond scan while_loop",
    "custom": "custom_jvp custom_vjp",
    "modules": "functional_call stack_module_state",
    "sparse": "Sparsity hessian_pattern jacobian_pattern sparse_hessian sparse_jacobian",
}
_ON_DEMAND = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> _Any:
    if name in _ON_DEMAND:
        value = getattr(_import_module(f"lucid.func.{_ON_DEMAND[name]}"), name)
    else:
        row = next((row for row in _having("func") if row.name == name), None)
        if row is None:
            raise AttributeError(f"module 'lucid.func' has no attribute {name!r}")
        value = row.function()
    globals()[name] = value
    return value


__all__ = [
    "ExportError",
    "Exported",
    "Program",
    "Sparsity",
    "cond",
    "custom_jvp",
    "custom_vjp",
    "export",
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "hessian_pattern",
    "hvp",
    "jacfwd",
    "jacobian",
    "jacobian_pattern",
    "jacrev",
    "jvp",
    "linearize",
    "load_exported",
    "make_graph",
    "scan",
    "sparse_hessian",
    "sparse_jacobian",
    "stack_module_state",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
]
