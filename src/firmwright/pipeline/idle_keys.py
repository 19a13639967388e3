"""Reports the keys of a recipe that do not affect the build."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from firmwright.recipe.overrides import complete_key

from .declaration import ALL
from .job import Job


@dataclass(frozen=True)
class IdleKey:
    """A key, a condition that is true if the key has no effect, and an explanation."""

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
    for each in IDLE_KEYS:
        if each.is_idle(job):
            yield str(job.recipe.make_diagnostic((each.key,), f"note: {each.sentence}"))


ALWAYS_READ = ("name", "platform", "compile_for_device")
"""The keys that select the folder of the results."""


def list_idle_arguments(
    job: Job, arguments: Sequence[str], overrides: Mapping[str, str]
) -> Iterator[str]:
    """Yield a note for each ``name=value`` that no stage of a command reads.

    ``arguments`` are the arguments of doit, and ``overrides`` are the arguments that replace keys.
    A command reads all keys if it names a task that is not a stage.
    """
    stages = {stage.name: stage for stage in job.pipeline}
    asked = [a.partition(":")[0] for a in arguments if "=" not in a and not a.startswith("-")]
    if not asked or not {*asked} <= {*stages}:
        return
    reached: dict[str, None] = {}
    while asked:
        name = asked.pop()
        if name in stages and name not in reached:
            reached[name] = None
            asked += stages[name].needs
    if any(stages[name].keys == ALL for name in reached):
        return
    read = [key for name in reached for key in stages[name].keys] + [*ALWAYS_READ]
    for name, value in overrides.items():
        key = complete_key(name).strip("+")
        if not any(overlaps(key, other) for other in read):
            yield f"{name}={value}: note: no effect on {', '.join(sorted(reached))}"


def overlaps(key: str, other: str) -> bool:
    return key == other or key.startswith(f"{other}.") or other.startswith(f"{key}.")
