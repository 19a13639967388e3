"""Defines the output of ``build``, ``lock``, ``list``, ``show``, ``doctor``, … with ``--json``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec import UNSET, UnsetType

from firmwright.documents.quantities import format_microjoules, format_milliseconds


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a job: the facts of its bundle, or the message ``failure``.

    ``exact`` is "exact", "within the tolerance" or "not run". ``total`` is the cost of one
    inference. The ``unit`` is "cycles" or "instructions", and ``source`` is the method of
    measurement. ``flash`` and ``ram`` are in bytes. ``offload`` is the percentage of
    multiply-accumulates that run on devices other than the target's last device. A number is None
    if it is unknown. ``bundle`` is the path of the bundle, and '' in a fleet.
    """

    job: str
    failure: str = ""
    sha256: str = ""
    exact: str = ""
    total: int | None = None
    unit: str = ""
    source: str = ""
    milliseconds: float | None = None
    microjoules: float | None = None
    flash: int | None = None
    ram: int | None = None
    batch: int | None = None
    offload: float | None = None
    bundle: str = ""

    @property
    def time(self) -> str:
        """Return a text such as ``64.4 ms, 38.4 µJ`` or ``2,954 instructions``, or ''."""
        time = "" if self.total is None else f"{self.total:,} {self.unit}"
        if self.milliseconds is not None:
            time = format_milliseconds(self.milliseconds)
        energy = "" if self.microjoules is None else f", {format_microjoules(self.microjoules)}"
        return f"{time}{energy}"


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The output of ``build`` and ``fleet`` with ``--json``, and the file ``fleet.json``.

    The outcomes have the order of the command line or of the matrix.
    """

    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class CheckedLock:
    """A recipe's lock for one platform. ``failure`` is '' if the lock was written or is valid."""

    recipe: str
    platform: str
    lock: str
    failure: str = ""


@dataclass(frozen=True, slots=True)
class CheckedLocks:
    """The output of ``lock --json`` and ``lock --check --json``."""

    locks: tuple[CheckedLock, ...]


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """The output of ``info --json``.

    ``reasons`` states why the task would run, and is empty if the task is up to date. The task runs
    after ``tasks``, reads ``files`` and writes ``results``.
    """

    task: str
    sentence: str
    reasons: tuple[str, ...]
    tasks: tuple[str, ...]
    files: tuple[str, ...]
    results: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verification:
    """The output of ``verify-bundle --json``. ``failure`` is '' if the bundle is trusted."""

    bundle: str
    trusted: bool
    sha256: str
    failure: str = ""


@dataclass(frozen=True, slots=True)
class ListedPlatform:
    """A built-in platform. The first toolchain and the first emulator are the defaults."""

    name: str
    toolchains: tuple[str, ...]
    emulators: tuple[str, ...]
    description: str


@dataclass(frozen=True, slots=True)
class ListedTarget:
    """A device, the built-in platforms that have it, and the reason why it runs an operator."""

    name: str
    platforms: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class ListedProgram:
    """A package, compiler or emulator.

    ``version`` is '' if the program is missing. ``remedy`` is '' if builds can use the program. In
    other cases, ``remedy`` states how to install a suitable program.
    """

    name: str
    version: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Installed:
    """The output of ``platforms``, ``targets``, ``toolchains`` and ``doctor`` with ``--json``.

    Each command sets its lists: ``doctor`` sets packages, toolchains and emulators.
    """

    platforms: tuple[ListedPlatform, ...] | UnsetType = UNSET
    targets: tuple[ListedTarget, ...] | UnsetType = UNSET
    packages: tuple[ListedProgram, ...] | UnsetType = UNSET
    toolchains: tuple[ListedProgram, ...] | UnsetType = UNSET
    emulators: tuple[ListedProgram, ...] | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class ListedTask:
    """A task that `doit NAME` runs, and its sentence."""

    name: str
    sentence: str


@dataclass(frozen=True, slots=True)
class TaskList:
    """The output of ``firmwright list --json``, in the order of names."""

    tasks: tuple[ListedTask, ...]


@dataclass(frozen=True, slots=True)
class ResolvedRecipe:
    """The output of ``firmwright show --json``.

    ``recipe`` has the values that a build uses. ``origins`` maps the key of each value, such as
    ``run.seed``, to the origin of the value. An origin is ``FILE:LINE``, ``command line`` or
    ``default``.
    """

    recipe: dict[str, Any]
    origins: dict[str, str]
