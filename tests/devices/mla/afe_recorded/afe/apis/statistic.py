"""api: statistics of evaluations, release 2.1."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

Pair = tuple[Any, Any]


@dataclass(frozen=True)
class Statistic:
    """The real class is in ``afe.driver.statistic``."""

    compute: Callable[[Iterable[Pair]], float]


def mean(metric: Callable[[Any, Any], float]) -> Statistic:
    """The mean of metric(outputs, truth) over all pairs."""

    def average(pairs: Iterable[Pair]) -> float:
        found = [metric(outputs, truth) for outputs, truth in pairs]
        return sum(found) / len(found)

    return Statistic(average)
