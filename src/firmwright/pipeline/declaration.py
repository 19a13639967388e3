"""Defines the declaration of a stage: its inputs, its results and the function that runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Generic, TypeVar

from firmwright.documents.yaml_text import Pointer

from .artifact import Artifact
from .tool_stamps import Tool

Job = TypeVar("Job")
"""The class of jobs.

The class's module imports this module, and `stage` binds the declarations to the class.
"""


ALL = ("*",)
"""All keys of the recipe, or all fields of the platform."""


class Scope(Enum):
    """The inputs, in addition to the model, that determine the results of a stage."""

    MODEL = "model"
    """No other input, so all platforms and a comparison's second target share the results."""
    TARGET = "target"
    """The target, and the platform only if a device or a batch depends on the platform."""
    PLATFORM = "platform"


@dataclass(frozen=True)
class StageDeclaration(Generic[Job]):
    """One step of the pipeline, which has a separate result folder.

    ``run`` ("module:function") names the function ``(job, folder)`` that writes the results into an
    empty folder. The default is ``run`` in the module of ``firmwright.stages`` with the stage's
    name. The module is imported when the stage runs.

    The results of a stage depend on these fields and on all of firmwright's code:

    - ``reads``: the results of earlier stages
    - ``keys``: keys of the recipe, such as ``run.seed``; ALL for every key
    - ``platform``: fields of the platform; ALL for every field. The fields are ignored if
      platforms share the results.
    - ``variables``: environment variables. Only their presence counts, because the files
      that the variables name are inputs.
    - ``facts``: values that are derived from other files, by name
    - ``inputs``: the user's files
    - ``templates``: patterns of files below firmwright's template folder
    - ``tools``: compilers and other programs

    ``tests/hammer/keys.py`` records the keys, fields and variables that a stage reads. The test
    fails if a stage does not declare one of these names.

    A stage that ``compares`` also reads the results of the compared job. A stage that ``reads_all``
    reads the results of every other stage. The results of a stage that is ``for_both`` are also
    valid for the compared job. A stage that ``joins`` reads the results of the job's members. The
    stage depends on all inputs of each member's stage ``of_members``.

    A stage ``applies`` if the recipe requests it. ``condition`` describes the requirements as text.
    If the recipe requests a stage that the platform or the machine cannot run, ``explain_absence``
    returns the reason. ``archive`` returns a mapping from names in the bundle to files. ``publish``
    returns the files that firmwright moves from the stage's folder to other locations. ``about`` is
    the recipe key that the stage's errors concern; messages show its location. A stage that
    ``gives_regions`` replaces the regions of the partition, and the new regions are lowered.
    """

    name: str
    sentence: str
    run: str = ""
    reads: Sequence[Artifact[Any]] = ()
    keys: Sequence[str] = ()
    platform: Sequence[str] = ()
    variables: Sequence[str] = ()
    facts: Mapping[str, Callable[[Job], Any]] = field(default_factory=dict)
    inputs: Callable[[Job], Iterable[Path]] = lambda _: ()
    templates: Callable[[Job], Iterable[str]] = lambda _: ()
    tools: Callable[[Job], Iterable[Tool]] = lambda _: ()
    applies: Callable[[Job], object] = lambda _: True
    condition: str = ""
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
    def function(self) -> str:
        return self.run or f"firmwright.stages.{self.name}:run"

    @property
    def needs(self) -> tuple[str, ...]:
        """The stages whose results this stage reads, even if a stage does not apply to a job."""
        return tuple(dict.fromkeys(artifact.stage for artifact in self.reads))
