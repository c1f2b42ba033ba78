"""Fills the templates with values of the pool, and makes whole programs of templates and rows."""

import random
import re
from typing import Any

from fuzz import templates
from fuzz.pool import SHAPES, Pool
from fuzz.program import Program, array
from fuzz.rows import USED, add_row, odds

KINDS = {kind: [t for t in text.strip().splitlines() if t] for kind, (text, _) in templates.WEIGHTS.items()}
ODDS = [weight for _, weight in templates.WEIGHTS.values()]
PLACE = re.compile(r"\{(\w+)([~=]?)\}")
NUMBERS = (0.1, 0.3, -0.7, 1 / 3, 2.5, 1.1, 2, 0, -1)
STATEMENTS = ("views", "copies", "mixes", "dynamic", "detached values")
# (type, weight): double precision is where differences show.
TYPES = {"float64": 0.78, "complex128": 0.14, "float32": 0.08}


class MissingError(Exception):
    """The pool has no value for a place."""


class Filling:
    """One template being filled: letters keep their values, and indices are of the value named last."""

    def __init__(self, pool: Pool) -> None:
        self.pool, self.choose = pool, pool.choose
        self.chosen: dict[str, str] = {}
        self.last: Any = None

    def fill(self, template: str) -> str:
        for letter in "aw":  # what comes before the value may be about it
            if f"{{{letter}}}" in template:
                self.value(letter, "")
        return PLACE.sub(self.place, template)

    def place(self, match: re.Match[str]) -> str:
        letter, how = match.groups()
        if letter in ("a", "b", "w", "s"):
            return self.value(letter, how)
        return str(getattr(self, f"_{letter}")())

    def value(self, letter: str, how: str) -> str:
        if how == "" and letter in self.chosen:
            return self.chosen[letter]
        shape = None if self.last is None else tuple(self.last.shape)
        name = self._found(letter, how, shape)
        if name is None:
            name = self._made(letter, how, shape)
        if how == "" and letter != "s":
            self.chosen[letter] = name
            self.last = self.pool.value(name)
        return name

    def _found(self, letter: str, how: str, shape: tuple[int, ...] | None) -> str | None:
        pool = self.pool
        if letter == "w":
            return pool.writable()
        if letter == "s":
            return pool.any_float(lambda v: v.ndim == 0)
        if how == "=":
            return pool.any_float(lambda v: v.shape == shape)
        return pool.fitting(shape) if how == "~" and shape is not None else pool.any_float()

    def _made(self, letter: str, how: str, shape: tuple[int, ...] | None) -> str:
        if letter == "w":
            raise MissingError
        wanted = () if letter == "s" else shape if how else self.choose.choice(SHAPES)
        return self.pool.leaf(self.pool.random_array(wanted or ()))

    # Places for what is not a value.

    def _c(self) -> str:
        number = self.choose.choice(NUMBERS)
        if self.pool.dtype.startswith("c") and self.choose.random() < 0.3:
            return repr(complex(number, 0.1))
        return f"({number!r})" if number < 0 else repr(number)

    def _k(self) -> str:
        return repr(self.choose.choice((0, 1, 2, 3)))

    def _ndim(self) -> int:
        if self.last is None or not self.last.ndim:
            raise MissingError
        return int(self.last.ndim)

    def _d(self) -> str:
        if "d" not in self.chosen:
            ndim = self._ndim()
            self.chosen["d"] = repr(self.choose.randrange(-ndim, ndim))
        return self.chosen["d"]

    def _e(self) -> str:
        ndim = self._ndim()
        return repr(self.choose.randrange(-ndim, ndim))

    def _n(self) -> str:
        size = self.last.shape[int(self._d())]
        if not size:
            raise MissingError
        return repr(self.choose.randrange(size))

    def _n0(self) -> str:
        if not self._ndim() or not self.last.shape[0]:
            raise MissingError
        return repr(self.choose.randrange(self.last.shape[0]))

    def _m(self) -> str:
        shape = tuple(self.last.shape)
        if self.choose.random() < 0.5 and not self.pool.dtype.startswith("c"):
            name = self.pool.any_float(lambda v: v.shape == shape)
            return f"({name} > {self._c()})" if name else self._new_mask(shape)
        return self._new_mask(shape)

    def _new_mask(self, shape: tuple[int, ...]) -> str:
        return self.pool.leaf(self.pool.rng.random(shape) < 0.5)

    def _ones(self) -> str:
        return ", ".join(["1"] * max(self._ndim(), 1))

    def _wider(self) -> str:
        shape = [self.choose.choice((1, 2, 3)) if n == 1 else n for n in self.last.shape]
        if self.choose.random() < 0.4 and len(shape) < 3:
            shape = [self.choose.choice((1, 2)), *shape]
        return f"({''.join(f'{n}, ' for n in shape)})"

    def _shape(self) -> str:
        """The same elements in other dimensions."""
        left, sizes = array(self.last).size, []
        for n in (2, 3, 5):
            if left % n == 0 and left > 1 and self.choose.random() < 0.6:
                sizes.append(n)
                left //= n
        sizes += [left] if left > 1 or not sizes else []
        sizes += [1] if self.choose.random() < 0.3 else []
        self.choose.shuffle(sizes)
        return f"({''.join(f'{n}, ' for n in sizes)})"

    def _i(self) -> str:
        """An index by numbers, slices, new dimensions and dots; a tensor now and then."""
        parts: list[str] = []
        for size in self.last.shape:
            if not size:
                raise MissingError
            kind = self.choose.random()
            k = self.choose.randrange(size)
            if kind < 0.35:
                parts.append(repr(self.choose.choice((k, k - size))))
            elif kind < 0.55:
                parts.append(f"{k}:")
            elif kind < 0.65:
                parts.append("::2")
            elif kind < 0.75:
                parts.append(f":{k + 1}")
            elif kind < 0.8:
                parts.append(f"lucid.tensor([{k}, 0])")
            elif kind < 0.84:
                parts.append(f"[{k}]")
            else:
                parts.append(":")
            if self.choose.random() < 0.35:
                break
        if self.choose.random() < 0.1:
            parts.insert(0, "...")
        elif self.choose.random() < 0.1:
            parts.insert(self.choose.randrange(len(parts) + 1), "None")
        return ", ".join(parts) or "..."


def add_template(pool: Pool) -> bool:
    kind = pool.choose.choices(list(KINDS), ODDS)[0]
    template = pool.choose.choice(KINDS[kind])
    pool.forget()
    try:
        text = Filling(pool).fill(template)
    except MissingError:
        pool.forget()
        return False
    written = kind in ("writes", "detached")
    return pool.add(
        text,
        template,
        results=() if written else None,
        batchable=kind != "dynamic",
        # End points are read as Python numbers.
        detaches="detach" in template or "space(" in template,
    )


def program(seed: int, number: int) -> Program:
    """The program of this number."""
    choose = random.Random(f"{seed}:{number}")
    dtype = choose.choices(list(TYPES), list(TYPES.values()))[0]
    pool = Pool(choose, dtype, parity=choose.random() < 0.6)
    for _ in range(choose.randrange(1, 4)):
        pool.add(f"{pool.leaf(pool.random_array(choose.choice(SHAPES)))}.clone()", "clone")
    wanted = len(pool.lines) + min(choose.randrange(3, 26), choose.randrange(3, 26))
    for _ in range(3 * wanted):
        if len(pool.lines) >= wanted:
            break
        if choose.random() < 0.5:
            pool.forget()
            add_row(pool, choose.choices(USED, odds())[0])
        else:
            add_template(pool)
    return pool.finished()
