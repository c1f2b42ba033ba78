"""Functions of single elements that are made of several operations: one loop does them all where nothing is recorded."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from lucid.core import dtypes, kernels
from lucid.core.primitive import element_type
from lucid.core.tensor import of_class, wrapped
from lucid.ops.expressions import Source
from lucid.ops.rules import is_array


def one_loop(count: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A function of so many tensors, which must be a function of their elements; its parameters are numbers with names.

    Half precision is not computed in one loop, which would round once where single operations round often.
    """

    def made(function: Callable[..., Any]) -> Callable[..., Any]:
        source = Source(function)
        loops: list[Any] = []

        @wraps(function)
        def call(*tensors: Any, **params: float) -> Any:
            kind = element_type(tensors[0])
            for x in tensors:
                if element_type(x) is not kind or not is_array(x):
                    return function(*tensors, **params)
            if kind not in dtypes.SINGLE_AND_DOUBLE:
                return function(*tensors, **params)
            if not loops:
                loops.append(kernels.scalar(source, count, bool(params)))
            return of_class(tensors, wrapped(loops[0](*[x._array for x in tensors], **params)))

        return call

    return made
