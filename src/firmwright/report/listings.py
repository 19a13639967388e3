"""Defines the output of ``platforms``, ``doctor``, ``list``, ``show``, … with ``--json``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec import UNSET, UnsetType


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
