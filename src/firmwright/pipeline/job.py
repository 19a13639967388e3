"""Defines a job: one recipe to build, its stages, and their folders."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from firmwright.data.sample_sources import DataFolders
from firmwright.emulator import Emulator, load_emulator
from firmwright.recipe.recipe import Recipe, lock_path, precision_path, tuned_path
from firmwright.targets import Device
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import Build, Platform
from firmwright.toolchain.boards import list_custom_board_files
from firmwright.toolchain.descriptions import is_custom_file, resolve_description
from firmwright.toolchain.platforms import PLATFORMS
from firmwright.toolchain.sdk import explain_not_built
from firmwright.toolchain.toolchains import TOOLCHAINS

from .artifact import LOWERED_STAGE, NETWORK_STAGE
from .declaration import Scope, StageDeclaration
from .devices import device_files, find_installed_code, load_custom_targets
from .tool_stamps import Tool, collect_settings, compiler_tool

KERNELS_STAGE = "kernels"
QUANTIZED_STAGE = "quantized"


def find_toolchain(recipe: Recipe, platform: Platform) -> str:
    if recipe.toolchain is None:
        return platform.toolchains[0]
    return resolve_description(recipe.toolchain, recipe.path.parent)


@dataclass(frozen=True)
class Job:
    """One recipe to build on one platform, in one output folder.

    ``pipeline`` contains the stages of all jobs, and devices add stages. ``overrides`` are values
    of the command line that replace the recipe's values only for this job.

    ``origin`` is the job whose network this job compiles for a second target, for a comparison.
    ``members`` are the jobs whose networks are in this job's firmware, in the order of execution.
    The networks run at the same time if ``concurrent`` is true.

    ``variants`` is the file of one trial of a search. A job with ``variants`` and an origin shares
    all results before the kernels stage with the origin. ``precision`` is the file of one trial of
    a search for weight types. A job with ``precision`` shares all results before the quantized
    network with the origin.
    """

    recipe: Recipe
    platform: Platform
    build: Build
    outdir: Path
    pipeline: tuple[StageDeclaration[Job], ...]
    overrides: Mapping[str, str] = field(default_factory=dict)
    origin: Job | None = None
    members: tuple[Job, ...] = ()
    concurrent: bool = False
    variants: Path | None = None
    precision: Path | None = None
    notes: list[str] = field(default_factory=list, compare=False, repr=False)
    """The notes of the running stage."""

    @property
    def network_stage(self) -> str:
        """The stage that writes the network to be compiled, which is also the reference."""
        return QUANTIZED_STAGE if self.recipe.quantize else "model"

    @property
    def lowered_stage(self) -> str:
        given = (n for n, s in self.stages.items() if s.gives_regions and self.has_stage(n))
        return next(given, "partition")

    @cached_property
    def _applying(self) -> dict[str, bool]:
        return {}

    @cached_property
    def stages(self) -> dict[str, StageDeclaration[Job]]:
        """A mapping from names to the stages of the pipeline and of the recipe's devices."""
        stages = list(self.pipeline)
        for name in (name for device in self.mix for name in device.target.stages):
            declaration: StageDeclaration[Job] = resolve_name(name)
            # The stage follows the stages that it reads, so that its errors appear early.
            positions = [i + 1 for i, stage in enumerate(stages) if stage.name in declaration.needs]
            stages.insert(max(positions, default=0), declaration)
        return {stage.name: stage for stage in stages}

    def name_stage(self, stage: str) -> str:
        """Return the job's stage for an artifact's stage, which may be a placeholder."""
        if stage == NETWORK_STAGE:
            return self.network_stage
        return self.lowered_stage if stage == LOWERED_STAGE else stage

    def folder(self, stage: str) -> Path:
        """Return a stage's result folder.

        The folder is below the platform's folder unless platforms share the results.
        """
        if stage not in self._folders:
            self._folders[stage] = self._find_folder(self.name_stage(stage))
        return self._folders[stage]

    @cached_property
    def _folders(self) -> dict[str, Path]:
        return {}

    def _find_folder(self, name: str) -> Path:
        if self.origin and self.is_of_origin(name):
            return self.origin.folder(name)
        return (self.outdir if self.is_shared(name) else self.outdir / self.platform.name) / name

    def has_stage(self, stage: str) -> bool:
        if stage not in self._applying:
            placeholder = stage in (NETWORK_STAGE, LOWERED_STAGE)
            definition = self.stages.get(stage)
            self._applying[stage] = placeholder or bool(definition and definition.applies(self))
        return self._applying[stage]

    def makes_stage(self, stage: str) -> bool:
        return self.has_stage(stage) and not self.is_of_origin(stage)

    def is_of_origin(self, name: str) -> bool:
        """Return whether the job uses the origin's results of a stage."""
        if self.origin is None:
            return False
        if self.variants is not None:
            return not self.depends_on_kernels(name)
        if self.precision is not None:
            return not self.depends_on(name, QUANTIZED_STAGE)
        stage = self.stages[name]
        return stage.scope is Scope.MODEL or stage.for_both

    def depends_on_kernels(self, stage: str) -> bool:
        return self.depends_on(stage, KERNELS_STAGE)

    def depends_on(self, stage: str, first: str) -> bool:
        """Return whether a stage is ``first``, or reads its results directly or indirectly."""
        name = self.name_stage(stage)
        needs = self.stages[name].needs
        return name == first or any(self.depends_on(need, first) for need in needs)

    def is_shared(self, stage: str) -> bool:
        scope = self.stages[stage].scope
        compares = self.recipe.batch is not None or self.recipe.placement == "cost"
        portable = scope is Scope.TARGET and self.is_portable and not compares
        return portable or scope is Scope.MODEL

    @property
    def all_jobs(self) -> tuple[Job, ...]:
        return (self, self.comparison_job) if self.recipe.compare else (self,)

    @cached_property
    def comparison_job(self) -> Job:
        """The job that compiles the network for the target of the recipe's ``compare``."""
        left_out = ("compare", "demo", "require_offload")
        kept = {key: value for key, value in self.recipe.data.items() if key not in left_out}
        changed = {
            "name": f"{self.recipe.name}-compared",
            "target": self.recipe.data["compare"],
            "allow_fallback": True,
        }
        recipe = self.recipe.replace_data({**kept, **changed})
        outdir = self.outdir / "compared"
        return replace(self, recipe=recipe, outdir=outdir, origin=self)

    @property
    def is_portable(self) -> bool:
        """Return whether the devices and the kernels do not depend on the platform."""
        portable = all(device.target.is_portable for device in self.mix)
        return portable and not self.platform.features and not self.tuned_files

    @cached_property
    def mix(self) -> tuple[Device, ...]:
        recipe = self.recipe
        custom = load_custom_targets(recipe)
        batch = recipe.batch.size if recipe.batch else 1
        fused = recipe.fuse_layers
        return load_mix(recipe.target, self.platform, recipe.rounding, fused, custom, batch)

    @property
    def cores(self) -> dict[str, str]:
        return {device.name: device.target.core for device in self.mix}

    def list_tasks(self) -> list[str]:
        return [self.task_name(stage) for stage in self.stages if self.has_stage(stage)]

    def task_name(self, stage: str) -> str:
        """Return a stage's task name, which names the platform unless platforms share the task."""
        return f"{stage}:{self.recipe.name if self.is_shared(stage) else self.bundle_name}"

    @property
    def emulator(self) -> str:
        return self.recipe.run.emulator or self.platform.emulators[0]

    @property
    def title(self) -> str:
        return f"{self.recipe.name} on {self.platform.name}"

    @property
    def target(self) -> str:
        return ", ".join(str(device) for device in self.recipe.target)

    @property
    def stats_file(self) -> str:
        return f"{self.recipe.name}_stats.yaml"

    @property
    def bundle_name(self) -> str:
        return f"{self.recipe.name}-{self.platform.name}"

    @property
    def bundle(self) -> Path:
        return self.outdir / f"{self.bundle_name}.tar.gz"

    @property
    def report(self) -> Path:
        """The path of the HTML report, which is next to the bundle."""
        return self.outdir / f"{self.bundle_name}.html"

    @property
    def cache(self) -> Path:
        """A folder for the caches of compilers and emulators, which is never part of a result."""
        return self.origin.cache if self.origin else self.outdir / ".cache"

    @cached_property
    def not_built(self) -> str:
        """The missing parts of the platform's SDK, without which no C code is compiled."""
        return explain_not_built(self.build)

    @property
    def has_firmware(self) -> bool:
        return not self.not_built

    @property
    def can_emulate(self) -> bool:
        """Return whether an emulator or this machine can run the firmware."""
        return self.has_firmware and bool(self.platform.emulators)

    @property
    def is_run(self) -> bool:
        """Return whether the firmware runs in an emulator, on a board or on this machine."""
        return self.has_firmware and (self.can_emulate or self.recipe.run.board is not None)

    @property
    def counts_instructions(self) -> bool:
        """Return whether a run counts the instructions of every firmware."""
        emulated = self.can_emulate and self.recipe.run.board is None
        return emulated and self._chosen_emulator.counts_instructions(self.platform)

    @property
    def measures_cycles(self) -> bool:
        """Whether the firmware runs on a board and reads the core's counter around each layer.

        A network in a slot calls no functions of the firmware. Hooks of the recipe call the user's
        functions.
        """
        on_board = self.is_run and self.recipe.run.board is not None
        return on_board and not (self.unmeasured_by or self.members)

    @property
    def unmeasured_by(self) -> str:
        """The recipe's key that prevents the measurement of layers on a board, or ''."""
        return next((key for key in ("hooks", "slot") if getattr(self.recipe, key)), "")

    @property
    def counts_cycles(self) -> bool:
        """Return whether the emulator or a cost model provides the cycles of an inference."""
        if not self.counts_instructions:
            return False
        return self._chosen_emulator.counts_cycles(self.platform) or len(self.mix) > 1

    @property
    def clock(self) -> int | None:
        """The processor's clock frequency in Hz.

        The clock is None if neither the recipe nor the platform states it.
        """
        return self.recipe.clock or self.platform.clock

    @cached_property
    def _chosen_emulator(self) -> Emulator:
        return load_emulator(self.emulator)

    @property
    def box_pictures(self) -> dict[Path, Path]:
        """The path next to the bundle for each picture with boxes from the last run.

        The pictures are from the first inference, one per item of the recipe's batch.
        """
        drawn = self.folder("run").glob("boxes-*.png")
        first = sorted(drawn, key=lambda p: (len(p.name), p.name))
        size = self.recipe.batch.size if self.recipe.batch else 1
        return {
            picture: self.outdir / f"{self.bundle_name}-boxes{f'-{i}' if i else ''}.png"
            for i, picture in enumerate(first[:size])
        }

    @property
    def data_folders(self) -> DataFolders:
        return DataFolders(self.recipe.path.parent, self.cache)

    @property
    def board_access(self) -> str | None:
        """The relative path of the file that describes the connection to a board, or None."""
        board = self.recipe.run.board
        return None if board is None else os.path.relpath(self.recipe.resolve(board))

    @property
    def lock_files(self) -> list[Path]:
        """The lock of the recipe, if the file exists."""
        path = lock_path(self.recipe.path)
        return [path] if path.exists() else []

    @property
    def tuned_files(self) -> list[Path]:
        """The file with the variants of the layers, if it exists."""
        if self.variants is not None:
            return [self.variants]
        path = tuned_path(self.recipe.path)
        return [path] if self.origin is None and path.exists() else []

    @property
    def precision_files(self) -> list[Path]:
        """The file with the types of weights, if the recipe has a search and the file exists."""
        if self.precision is not None:
            return [self.precision]
        quantize = self.recipe.quantize
        path = precision_path(self.recipe.path)
        return [path] if quantize and quantize.search and path.exists() else []

    @property
    def description_files(self) -> dict[str, Path]:
        """The other files of a bundle: lock, variants, types, platform and toolchain."""
        recipe, folder = self.recipe, self.recipe.path.parent
        toolchain = TOOLCHAINS.find_file(find_toolchain(recipe, self.platform))
        return {
            **{f"{recipe.name}.lock": path for path in self.lock_files},
            **{f"{recipe.name}.tuned": path for path in self.tuned_files},
            **{f"{recipe.name}.precision": path for path in self.precision_files},
            f"platforms/{self.platform.name}.yaml": PLATFORMS.find_file(recipe.platform, folder),
            f"toolchains/{self.build.toolchain.name}.yaml": toolchain,
        }

    @cached_property
    def device_files(self) -> list[Path]:
        return device_files(self.recipe)

    @cached_property
    def packages(self) -> frozenset[str]:
        """The packages whose versions affect the results of devices and of custom Python code."""
        of_devices = (d.target.packages for job in self.all_jobs for d in job.mix)
        code = find_installed_code(self.recipe)
        return code.packages.union(*of_devices)

    @property
    def platform_files(self) -> list[Path]:
        """The custom files of the board and of the toolchain."""
        toolchain = find_toolchain(self.recipe, self.platform)
        named = (toolchain, self.platform.cycles or "")
        custom = [Path(name) for name in named if is_custom_file(name)]
        return [*list_custom_board_files(self.platform.board), *custom]

    @cached_property
    def build_settings(self) -> dict[str, Any]:
        return collect_settings(self.build)

    @property
    def compiler(self) -> Tool:
        return compiler_tool(self.build, self.recipe.list_files("libraries"))

    def name_command(self, command: str) -> str:
        """Return the command line of ``firmwright`` that runs a command for this job."""
        overrides = [f"{name}={value}" for name, value in self.overrides.items()]
        return shlex.join(["firmwright", command, str(self.recipe.layers), *overrides])

    def note(self, text: str) -> None:
        """Add a note about the network, which the build prints below the stage."""
        self.notes.append(text)


Stage = StageDeclaration[Job]
"""The declaration of a stage of a job."""
