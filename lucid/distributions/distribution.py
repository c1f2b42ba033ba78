"""What distributions have in common: shapes, checks of arguments, sampling, and the ways in which parameters are given.

A draw is a function of uniform or normal numbers, so it has a derivative by the parameters wherever it is continuous
in them; `rsample` gives it with its history and `sample` without.
"""

import copy
import inspect
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, ClassVar

import lucid
from lucid import Tensor
from lucid.api import rng
from lucid.api.random import draw
from lucid.distributions import constraints
from lucid.distributions.constraints import Constraint
from lucid.ops.rules import P

Shape = tuple[int, ...]


class Distribution:
    """A probability distribution over tensors of `event_shape`, or a batch of them of `batch_shape`.

    Subclasses say what `arg_constraints` their arguments satisfy and in which `support` their values lie. Arguments, and
    the values given to `log_prob` and `cdf`, are checked unless `validate_args` is False.

    >>> import lucid
    >>> normal = lucid.distributions.Normal(lucid.zeros(3), 1.0)
    >>> normal.batch_shape, normal.event_shape, normal.sample((5,)).shape
    ((3,), (), (5, 3))
    """

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: ClassVar[dict[str, Constraint]] = {}
    support: Any = None
    _validate_args = __debug__

    def __init__(
        self, batch_shape: Sequence[int] = (), event_shape: Sequence[int] = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape, self._event_shape = tuple(batch_shape), tuple(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_arguments()

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Say whether distributions check their arguments if they are not told.

        >>> import lucid
        >>> lucid.distributions.Distribution.set_default_validate_args(True)
        """
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args: expected True or False, not {value!r}")
        Distribution._validate_args = value

    @property
    def batch_shape(self) -> Shape:
        """How many distributions this is, each with parameters of its own."""
        return self._batch_shape

    @property
    def event_shape(self) -> Shape:
        """The shape of one draw from one of them."""
        return self._event_shape

    # --- what subclasses say -------------------------------------------------------------------

    def _missing(self, what: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no {what} in closed form")

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        raise self._missing("mean")

    @property
    def mode(self) -> Tensor:
        """The value of greatest density."""
        raise self._missing("mode")

    @property
    def variance(self) -> Tensor:
        """The expected square of the distance from the mean."""
        raise self._missing("variance")

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return self.variance.sqrt()

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the density, or of the probability, of each event of `value`."""
        return self._log_prob(self._checked(value))

    def cdf(self, value: Any) -> Tensor:
        """The probability of what is not greater than `value`."""
        return self._cdf(self._checked(value))

    def icdf(self, value: Any) -> Tensor:
        """The inverse of `cdf`: the quantiles."""
        return self._icdf(self._probability(value))

    def entropy(self) -> Tensor:
        """The expected value of -log_prob."""
        raise self._missing("entropy")

    def perplexity(self) -> Tensor:
        """exp(entropy)."""
        return self.entropy().exp()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values that the distribution can take, along a first dimension; of batches, each at the same time."""
        raise NotImplementedError(f"{type(self).__name__} does not have finitely many values")

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draws that are differentiable by the parameters."""
        if not self.has_rsample:
            raise NotImplementedError(
                f"{type(self).__name__} has no rsample: draws do not change continuously with the parameters; use "
                "sample, and log_prob for the gradient of an expected value"
            )
        return self._draw(self._extended_shape(sample_shape))

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draws, of shape sample_shape + batch_shape + event_shape, with no history."""
        with lucid.no_grad():
            if type(self).rsample is not Distribution.rsample:  # a class that says how draws come about
                return self.rsample(sample_shape).detach()
            return self._draw(self._extended_shape(sample_shape)).detach()

    def sample_n(self, n: int) -> Tensor:
        """`sample((n,))`."""
        return self.sample((n,))

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> "Distribution":
        """The same distributions, seen as a larger batch of them."""
        raise self._missing("expand")

    def _log_prob(self, value: Tensor) -> Tensor:
        raise self._missing("log_prob")

    def _cdf(self, value: Tensor) -> Tensor:
        raise self._missing("cdf")

    def _icdf(self, value: Tensor) -> Tensor:
        raise self._missing("icdf")

    def _draw(self, shape: Shape) -> Tensor:
        """Draws of a shape that ends in batch_shape + event_shape: by default, quantiles of uniform numbers."""
        return self._icdf(self._uniform(shape))

    # --- what they are written with --------------------------------------------------------------

    def _copied(self, instance: Any = None) -> Any:
        """A copy to be changed: a new one, or what `instance`, which a subclass has begun to fill, lacks of it."""
        new = copy.copy(self) if instance is None else instance
        new.__dict__ = {**self.__dict__, **new.__dict__}
        return new

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Shape:
        return (*sample_shape, *self._batch_shape, *self._event_shape)

    @property
    def _dtype(self) -> Any:
        return lucid.get_default_dtype()

    def _uniform(self, shape: Shape) -> Tensor:
        """Numbers in the open interval from 0 to 1, as fine as the type holds them."""
        return _uniform(shape, self._dtype, type(self).__name__)

    def _normal(self, shape: Shape) -> Tensor:
        return lucid.randn(shape, dtype=self._dtype)

    def _made(self, tensor: Tensor) -> Tensor:
        """A tensor that no parameter took part in; front doors make it one of theirs."""
        return tensor

    def _filled(self, number: float) -> Tensor:
        return self._made(lucid.full(self._batch_shape, number, dtype=self._dtype))

    def _probability(self, value: Any) -> Tensor:
        value = lucid.as_tensor(value, dtype=None if isinstance(value, Tensor) else self._dtype)
        if self._validate_args:
            self._require(constraints.unit_interval.check(value), "probabilities must lie between 0 and 1")
        return value

    def _require(self, holds: Tensor, what: str) -> None:
        """Raise unless all hold: at once, also inside transforms; in a program each time that it runs."""
        P.satisfied(holds, what=f"{type(self).__name__}: {what}")

    def _check_arguments(self) -> None:
        for name, constraint in self.arg_constraints.items():
            if constraints.is_dependent(constraint) or name not in self.__dict__:
                continue
            value = self.__dict__[name]
            if isinstance(value, Tensor):
                self._require(constraint.check(value), f"{name} must satisfy {constraint!r}")

    def _checked(self, value: Any) -> Tensor:
        """A value as a tensor; if arguments are checked, one that lies in the support."""
        if not isinstance(value, Tensor):
            value = lucid.as_tensor(value)
        if self._validate_args:
            self._validate_sample(value)
        return value

    def _validate_sample(self, value: Tensor) -> None:
        wanted = self._batch_shape + self._event_shape
        cut = value.ndim - len(self._event_shape)
        fits = all(1 in (i, j) or i == j for i, j in zip(reversed(value.shape), reversed(wanted), strict=False))
        if cut < 0 or value.shape[cut:] != self._event_shape or not fits:
            raise ValueError(
                f"{type(self).__name__}: a value of shape {value.shape} does not broadcast with batch_shape "
                f"{self._batch_shape} and end in event_shape {self._event_shape}"
            )
        if self.support is not None:
            self._require(self.support.check(value), f"value must lie in the support, {self.support!r}")

    def __repr__(self) -> str:
        given = {name: self.__dict__[name] for name in self.arg_constraints if name in self.__dict__}
        shown = [f"{name}: {x if x.numel() == 1 else x.shape}" for name, x in given.items()]
        return f"{type(self).__name__}({', '.join(shown)})"


def _uniform(shape: Shape, dtype: Any, caller: str) -> Tensor:
    kind = lucid.float64 if dtype == lucid.float64 else lucid.float32
    drawn = draw(rng.OPEN_UNIFORM, shape, kind.numpy, None, caller)
    return drawn if dtype == kind else drawn.to(dtype)


class derived:
    """A property that follows from the parameters, unless it is itself one that was given.

    Nothing is kept: what was computed without recording must not be found by who records.
    """

    def __init__(self, function: Callable[[Any], Tensor]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self if instance is None else self.function(instance)


class Parametric(Distribution):
    """A distribution that parameters determine: `arg_constraints` has them in the order of the arguments.

    Numbers and tensors are brought to one floating-point type and broadcast; what a constraint calls an event is left
    out of that. Of several ways to say the same, such as probs and logits, `_choices` has all, and one is given.
    `_inner` has the dimensions of events in further tensors that instances keep.
    """

    _defaults: ClassVar[dict[str, Any]] = {}
    _choices: ClassVar[tuple[str, ...]] = ()
    _inner: ClassVar[dict[str, int]] = {}
    _signature: ClassVar[inspect.Signature]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        defaults = {**cls._defaults, **dict.fromkeys(cls._choices)}
        parameters = [
            inspect.Parameter(name, kind, default=defaults.get(name, inspect.Parameter.empty))
            for name in cls.arg_constraints
        ]
        cls._signature = inspect.Signature([*parameters, inspect.Parameter("validate_args", kind, default=None)])
        if cls.__init__ is Parametric.__init__:
            cls.__signature__ = cls._signature  # type: ignore[attr-defined]  # which `inspect` and `help` show

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}: {error}") from None
        bound.apply_defaults()
        validate_args = bound.arguments.pop("validate_args")
        self._take(dict(bound.arguments), validate_args)

    def _take(self, given: dict[str, Any], validate_args: bool | None) -> None:
        """Keep these parameters, as tensors."""
        if self._choices:
            chosen = [name for name in self._choices if given[name] is not None]
            if len(chosen) != 1:
                found = " and ".join(chosen) or "none"
                raise ValueError(f"{type(self).__name__}: give exactly one of {', '.join(self._choices)}, not {found}")
            given = {name: x for name, x in given.items() if x is not None}
        events = {name: self.arg_constraints[name].event_dim for name in given}
        tensors = _of_one_type(given)
        for name, x in tensors.items():
            if x.ndim < events[name]:
                raise ValueError(
                    f"{type(self).__name__}: {name} must have at least {events[name]} dimensions, not shape {x.shape}"
                )
        batch = lucid.broadcast_shapes(*[x.shape[: x.ndim - events[name]] for name, x in tensors.items()])
        self._given = tuple(tensors)
        self.__dict__.update({name: _expanded(x, batch, events[name]) for name, x in tensors.items()})
        super().__init__(batch, self._event_of(tensors, events), validate_args)

    def _event_of(self, tensors: dict[str, Tensor], events: dict[str, int]) -> Shape:
        """By default the last dimensions of the first parameter that has as many as an event."""
        count = type(self).support.event_dim
        found = next((x for name, x in tensors.items() if events[name] >= count), None)
        return found.shape[found.ndim - count :] if count and found is not None else ()

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> "Parametric":
        """The same distributions, seen as a larger batch of them."""
        new = self._copied(_instance)
        new._batch_shape = batch = tuple(batch_shape)
        events = {**{name: self.arg_constraints[name].event_dim for name in self._given}, **self._inner}
        new.__dict__.update({name: _expanded(self.__dict__[name], batch, dims) for name, dims in events.items()})
        return new

    @property
    def _dtype(self) -> Any:
        return self.__dict__[self._given[0]].dtype

    @property
    def _likelihood(self) -> Tensor:
        """The parameter that was chosen among several."""
        chosen = next((name for name in self._choices if name in self._given), None)
        if chosen is None:
            raise AttributeError(f"the parameters of {type(self).__name__} are given in one way alone")
        found: Tensor = self.__dict__[chosen]
        return found

    @property
    def param_shape(self) -> Shape:
        """The shape of the parameter that was given."""
        return self._likelihood.shape


def _of_one_type(given: dict[str, Any]) -> dict[str, Tensor]:
    """Numbers, arrays and tensors as tensors of one floating-point type: that of the tensors."""
    lifted = {name: x if isinstance(x, (int, float)) else lucid.as_tensor(x) for name, x in given.items()}
    types = [x.dtype for x in lifted.values() if isinstance(x, Tensor)]
    dtype = reduce(lucid.promote_types, types) if types else lucid.get_default_dtype()
    if not dtype.is_floating_point:
        dtype = lucid.get_default_dtype()
    return {
        name: x.to(dtype) if isinstance(x, Tensor) else lucid.tensor(float(x), dtype=dtype)
        for name, x in lifted.items()
    }


def _expanded(x: Tensor, batch: Shape, event_dim: int) -> Tensor:
    shape = (*batch, *x.shape[x.ndim - event_dim :])
    return x if x.shape == shape else x.expand(shape)


class ExponentialFamily(Distribution):
    """Densities exp(Σ ηᵢ tᵢ(x) - A(η)) h(x): from the natural parameters η and the log-normaliser A follows the entropy.

    Subclasses give `_natural_params`, `_log_normalizer` and `_mean_carrier_measure`, the expected value of log h.

    >>> import lucid
    >>> class Waiting(lucid.distributions.ExponentialFamily):
    ...     _natural_params = (lucid.tensor([-1.0, -2.0]),)
    ...     def _log_normalizer(self, eta):
    ...         return -(-eta).log()
    >>> Waiting((2,)).entropy()
    Tensor([1.    , 0.3069])
    """

    _mean_carrier_measure: Any = 0

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise self._missing("natural parameters")

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise self._missing("log-normaliser")

    def entropy(self) -> Tensor:
        """A(η) - Σ ηᵢ ∂A/∂ηᵢ - E[log h]."""
        natural = self._natural_params
        value, pull = lucid.func.vjp(self._log_normalizer, *natural)
        result = value - self._mean_carrier_measure
        for eta, slope in zip(natural, pull(lucid.ones_like(value)), strict=True):
            result = result - sum_last(eta * slope, len(self._event_shape))
        return result


def sum_last(x: Tensor, dims: int) -> Tensor:
    """The sum over the last dimensions."""
    return x.sum(tuple(range(-dims, 0))) if dims else x
