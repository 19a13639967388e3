"""One step of the pipeline: what it reads, what it writes, and the function that does it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Generic, TypeVar

from firmwright.documents.yaml_text import Pointer

from .artifact import Artifact
from .tools import Tool

Job = TypeVar("Job")
"""The class of jobs, which imports this module; `stage` has the declarations for it."""


ALL = ("*",)
"""All keys of the recipe, or all fields of the platform."""


class Scope(Enum):
    """What the results of a stage depend on beside the model."""

    MODEL = "model"
    """Nothing: every platform, and a comparison with another target, shares them."""
    TARGET = "target"
    """The target mix; the platform only where a device or a batch asks for it."""
    PLATFORM = "platform"


@dataclass(frozen=True)
class StageDeclaration(Generic[Job]):
    """One step of the pipeline, with results in a folder of its own.

    ``run`` names the function ``(job, folder)`` that writes them into an empty folder
    ("module:function", imported when it runs). Its results depend on ``reads``, the results of
    earlier stages; on ``keys`` of the recipe, such as ``run.seed``, and fields of the ``platform``
    (ALL for each of them); on ``variables`` of the environment, of which only counts whether they
    are set, because their files are inputs; on ``facts``, values by name that follow from other
    files; on ``inputs``, the user's files; on ``templates``, patterns of files below firmwright's
    own; on ``tools``; and on all of firmwright's code. ``tests/hammer/keys.py`` records the keys,
    fields and variables that a stage reads, and fails for one that is not declared. If platforms
    share the results, no field counts.

    A stage that ``compares`` reads the results of the job that it compares with as well, one that
    ``reads_all`` those of every other stage. The results of one ``for_both`` hold for the job that
    it compares with too. One that ``joins`` reads those of the job's members. With ``of_members``,
    each member counts as it does for that stage.

    A recipe that asks nothing of a stage, so that it does not apply, does without; where one asks
    and the platform or machine cannot run the stage, ``explain_absence`` says why. ``archive``
    gives files for the bundle by their names in it; ``publish`` those that move out of the
    stage's folder to places of their own. ``about`` is the key of the recipe that the stage's
    mistakes are about: they are told with its place. One that ``gives_regions`` puts others in the
    place of the partition's, which are lowered then.
    """

    name: str
    sentence: str
    run: str
    reads: Sequence[Artifact[Any]] = ()
    writes: Sequence[Artifact[Any]] = ()
    keys: Sequence[str] = ()
    platform: Sequence[str] = ()
    variables: Sequence[str] = ()
    facts: Mapping[str, Callable[[Job], Any]] = field(default_factory=dict)
    inputs: Callable[[Job], Iterable[Path]] = lambda _: ()
    templates: Callable[[Job], Iterable[str]] = lambda _: ()
    tools: Callable[[Job], Iterable[Tool]] = lambda _: ()
    applies: Callable[[Job], object] = lambda _: True
    scope: Scope = Scope.PLATFORM
    compares: bool = False
    for_both: bool = False
    joins: bool = False
    of_members: StageDeclaration[Job] | None = None
    reads_all: bool = False
    archive: Callable[[Job], Mapping[str, Path]] = lambda _: {}
    explain_absence: Callable[[Job], str] = lambda _: ""
    publish: Callable[[Job], Sequence[Path]] = lambda _: ()
    about: Pointer = ()
    gives_regions: bool = False

    @property
    def needs(self) -> tuple[str, ...]:
        """The stages whose results it reads; those that do not apply do not count."""
        return tuple(dict.fromkeys(artifact.stage for artifact in self.reads))
