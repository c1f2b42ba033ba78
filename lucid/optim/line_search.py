"""A line search for the strong Wolfe conditions."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

SUFFICIENT_DECREASE, CURVATURE = 1e-4, 0.9


class Point(NamedTuple):
    """A place on the line: the step to it, the loss there, its gradient, and its slope along the line."""

    step: float
    loss: float
    gradient: Any
    slope: float


def cubic_minimum(a: Point, b: Point, bounds: tuple[float, float] | None = None) -> float:
    """Where the cubic through two points with their slopes is lowest, within bounds (by default, between them)."""
    low, high = bounds or (min(a.step, b.step), max(a.step, b.step))
    if a.step > b.step:
        a, b = b, a
    width = b.step - a.step
    if width == 0:
        return low
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.step - b.step)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2
    d2 = math.sqrt(square)
    denominator = b.slope - a.slope + 2 * d2
    found = b.step - width * (b.slope + d2 - d1) / denominator if denominator else math.nan
    return min(max(found, low), high) if math.isfinite(found) else (low + high) / 2


class StrongWolfe:
    """Looks along a direction for a step with f(t) ≤ f(0) + c₁ t f'(0) and |f'(t)| ≤ c₂ |f'(0)|.

    First the step grows until the conditions hold or an interval is found that contains such a step; then the interval
    is cut down by cubic interpolation.
    """

    def __init__(
        self, evaluate: Callable[[float], Point], start: Point, largest: float, tolerance: float, limit: int = 25
    ) -> None:
        self._evaluate = evaluate
        self.start = start
        self.largest = largest  # component of the direction
        self.tolerance = tolerance
        self.limit = limit
        self.evaluations = 0
        self.rounds = 0

    def _at(self, step: float) -> Point:
        self.evaluations += 1
        return self._evaluate(step)

    def _too_high(self, point: Point) -> bool:
        return point.loss > self.start.loss + SUFFICIENT_DECREASE * point.step * self.start.slope

    def _flat(self, point: Point) -> bool:
        return abs(point.slope) <= -CURVATURE * self.start.slope

    def search(self, step: float) -> Point:
        """The point found, beginning with this step; the best seen if the limit is reached first."""
        done, ends = self._bracket(step)
        if not done:
            return self._narrow(*ends)
        return ends[0]

    def _bracket(self, step: float) -> tuple[bool, list[Point]]:
        before, now = self.start, self._at(step)
        while self.rounds < self.limit:
            if self._too_high(now) or (self.rounds > 1 and now.loss >= before.loss):
                return False, [before, now]
            if self._flat(now):
                return True, [now]
            if now.slope >= 0:
                return False, [before, now]
            bounds = now.step + 0.01 * (now.step - before.step), now.step * 10
            before, now = now, self._at(cubic_minimum(before, now, bounds))
            self.rounds += 1
        return False, [self.start, now]

    def _narrow(self, one: Point, other: Point) -> Point:
        low, high = (one, other) if one.loss <= other.loss else (other, one)
        stuck = False
        while self.rounds < self.limit and abs(high.step - low.step) * self.largest >= self.tolerance:
            step, stuck = self._trial(low, high, stuck)
            now = self._at(step)
            self.rounds += 1
            if self._too_high(now) or now.loss >= low.loss:
                low, high = (low, now) if low.loss <= now.loss else (now, low)
                continue
            if self._flat(now):
                return now
            if now.slope * (high.step - low.step) >= 0:
                high = low
            low = now
        return low

    def _trial(self, low: Point, high: Point, stuck: bool) -> tuple[float, bool]:
        """The next step to try: the cubic's minimum, but away from an end to which it keeps coming back."""
        step = cubic_minimum(low, high)
        first, last = min(low.step, high.step), max(low.step, high.step)
        margin = 0.1 * (last - first)
        if min(last - step, step - first) >= margin:
            return step, False
        if not stuck and first < step < last:
            return step, True
        return (last - margin if abs(step - last) < abs(step - first) else first + margin), False


def largest_component(vector: Any) -> float:
    return float(np.abs(vector).max(initial=0.0))
