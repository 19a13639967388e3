"""Reports the keys of a recipe that do not affect the build."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .job import Job


@dataclass(frozen=True)
class IdleKey:
    """A key, the condition under which it has no effect, and an explanation."""

    key: str
    is_idle: Callable[[Job], object]
    sentence: str


def has_one_device(job: Job) -> bool:
    return len(job.mix) == 1


def lacks_quantizing_device(job: Job) -> bool:
    quantizes = any(device.target.quantizes for device in job.mix)
    return job.recipe.calibration is not None and not quantizes


ONE_DEVICE = "the target has one device, so this requirement cannot fail; add a device before it"

IDLE_KEYS = (
    IdleKey(
        "calibration",
        lacks_quantizing_device,
        "no effect: no device of the target quantizes float layers itself",
    ),
    IdleKey(
        "placement",
        lambda job: job.recipe.placement == "cost" and has_one_device(job),
        "no effect, because the target has one device; add another device before it",
    ),
    IdleKey(
        "clock",
        lambda job: job.recipe.clock is not None and not job.counts_cycles,
        "no effect: the cycles of an inference are not known on this platform",
    ),
    IdleKey(
        "allow_fallback",
        lambda job: not job.recipe.allow_fallback and has_one_device(job),
        ONE_DEVICE,
    ),
    IdleKey(
        "require_offload",
        lambda job: job.recipe.require_offload is not None and has_one_device(job),
        ONE_DEVICE,
    ),
)
"""The keys whose effect depends on the target, which the command line may replace."""


def list_idle_keys(job: Job) -> Iterator[str]:
    """Yield a note with the position of each key that has no effect."""
    for each in IDLE_KEYS:
        if each.is_idle(job):
            yield str(job.recipe.make_diagnostic((each.key,), f"note: {each.sentence}"))
