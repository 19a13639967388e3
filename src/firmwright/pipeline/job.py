"""One recipe to build, and where: the stages that it goes through, and their folders."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
from shutil import which
from typing import Any

from firmwright.data.sample_sources import DataFolders
from firmwright.recipe import Recipe
from firmwright.recipe.recipe import lock_path, tuned_path
from firmwright.targets import Device
from firmwright.targets.load import load_mix
from firmwright.toolchain import Build, Platform
from firmwright.toolchain.boards import list_own_files
from firmwright.toolchain.descriptions import is_own_file, resolve_own
from firmwright.toolchain.platforms import PLATFORMS
from firmwright.toolchain.sdk import explain_not_built
from firmwright.toolchain.toolchains import TOOLCHAINS

from .artifact import LOWERED_STAGE, NETWORK_STAGE
from .declaration import Scope, StageDeclaration
from .devices import device_files, find_installed_code, load_custom_targets
from .tools import Tool, collect_settings, compiler_tool

KERNELS_STAGE = "kernels"


def find_toolchain(recipe: Recipe, platform: Platform) -> str:
    """Return the toolchain's name, or the path of its file."""
    if recipe.toolchain is None:
        return platform.toolchains[0]
    return resolve_own(recipe.toolchain, recipe.path.parent)


@dataclass(frozen=True)
class Job:
    """One recipe to build, and where.

    ``pipeline`` are the stages of all jobs; devices add theirs. ``words`` are those of the command
    line that replace what the recipe says, for this job alone. ``origin`` is the job whose network
    this one compiles for a second target, to be compared. ``members`` are the jobs whose networks
    are in this one's firmware, in the order of their runs, at the same time if ``concurrent``.
    With ``ways``, the file of one trial of a search, the job shares all that comes before the
    kernels with its origin, if it has one.
    """

    recipe: Recipe
    platform: Platform
    build: Build
    outdir: Path
    pipeline: tuple[StageDeclaration[Job], ...]
    words: Mapping[str, str] = field(default_factory=dict)
    origin: Job | None = None
    members: tuple[Job, ...] = ()
    concurrent: bool = False
    ways: Path | None = None
    notes: list[str] = field(default_factory=list, compare=False, repr=False)
    """What the stage that runs has to say."""

    @property
    def network_stage(self) -> str:
        """The stage that gives the network as it is compiled; its model is the reference."""
        return "quantized" if self.recipe.quantize else "model"

    @property
    def lowered_stage(self) -> str:
        """The stage that gives the regions as they are lowered."""
        given = (n for n, s in self.stages.items() if s.gives_regions and self.has_stage(n))
        return next(given, "partition")

    @cached_property
    def stages(self) -> dict[str, StageDeclaration[Job]]:
        """The stages that a recipe may need, by name: the pipeline's, and those of its devices."""
        stages = list(self.pipeline)
        for name in (name for device in self.mix for name in device.target.stages):
            own: StageDeclaration[Job] = resolve_name(name)
            # Right behind what it reads, so that its mistakes are told early.
            places = [i + 1 for i, stage in enumerate(stages) if stage.name in own.needs]
            stages.insert(max(places, default=0), own)
        return {stage.name: stage for stage in stages}

    def name_stage(self, stage: str) -> str:
        """Return the stage that stands for one of an artifact's in this job."""
        if stage == NETWORK_STAGE:
            return self.network_stage
        return self.lowered_stage if stage == LOWERED_STAGE else stage

    def folder(self, stage: str) -> Path:
        """Return a stage's result folder, below the platform's own where it depends on it."""
        name = self.name_stage(stage)
        if self.origin and self.is_of_origin(name):
            return self.origin.folder(name)
        return (self.outdir if self.is_shared(name) else self.outdir / self.platform.name) / name

    def has_stage(self, stage: str) -> bool:
        """Tell whether this recipe has work for a stage."""
        if stage in (NETWORK_STAGE, LOWERED_STAGE):
            return True
        return stage in self.stages and bool(self.stages[stage].applies(self))

    def makes_stage(self, stage: str) -> bool:
        """Tell whether a stage's results are this job's own, not those of its origin."""
        return self.has_stage(stage) and not self.is_of_origin(stage)

    def is_of_origin(self, name: str) -> bool:
        """Tell whether a stage's results are those of the job that this one comes from."""
        if self.origin is None:
            return False
        if self.ways is not None:
            return not self.depends_on_kernels(name)
        stage = self.stages[name]
        return stage.scope is Scope.MODEL or stage.for_both

    def depends_on_kernels(self, stage: str) -> bool:
        """Tell whether a stage reads what the kernels stage writes, or what was made of it."""
        name = self.name_stage(stage)
        needs = self.stages[name].needs
        return name == KERNELS_STAGE or any(self.depends_on_kernels(need) for need in needs)

    def is_shared(self, stage: str) -> bool:
        """Tell whether platforms share a stage's results."""
        scope = self.stages[stage].scope
        portable = scope is Scope.TARGET and self.recipe.batch is None and self.is_portable
        return portable or scope is Scope.MODEL

    @property
    def all_jobs(self) -> tuple[Job, ...]:
        """This job, and the one that it is compared with."""
        return (self, self.comparison_job) if self.recipe.compare else (self,)

    @cached_property
    def comparison_job(self) -> Job:
        """The job that compiles the same network for the recipe's ``compare``."""
        left_out = ("compare", "demo", "require_offload")
        kept = {key: value for key, value in self.recipe.data.items() if key not in left_out}
        changed = {
            "name": f"{self.recipe.name}-compared",
            "target": self.recipe.data["compare"],
            "allow_fallback": True,
        }
        recipe = self.recipe.restate({**kept, **changed})
        outdir = self.outdir / "compared"
        return replace(self, recipe=recipe, outdir=outdir, origin=self)

    @property
    def is_portable(self) -> bool:
        """Tell whether nothing of the mix depends on the platform, nor kernels on its features."""
        portable = all(device.target.is_portable for device in self.mix)
        return portable and not self.platform.features and not self.tuned_files

    @cached_property
    def mix(self) -> tuple[Device, ...]:
        recipe = self.recipe
        own = load_custom_targets(recipe)
        batch = recipe.batch.size if recipe.batch else 1
        fused = recipe.fuse_layers
        return load_mix(recipe.target, self.platform, recipe.rounding, fused, own, batch)

    @property
    def cores(self) -> dict[str, str]:
        """The core of each device of the mix, in its order."""
        return {device.name: device.target.core for device in self.mix}

    def list_tasks(self) -> list[str]:
        """Return the names of the tasks of all its stages, in the order of the pipeline."""
        return [self.task_name(stage) for stage in self.stages if self.has_stage(stage)]

    def task_name(self, stage: str) -> str:
        """Return the name of a stage's task; doit remembers each platform's by itself."""
        return f"{stage}:{self.recipe.name if self.is_shared(stage) else self.bundle_name}"

    @property
    def emulator(self) -> str:
        return self.recipe.run.emulator or self.platform.emulators[0]

    @property
    def title(self) -> str:
        return f"{self.recipe.name} on {self.platform.name}"

    @property
    def target(self) -> str:
        """The target mix as one text."""
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
        """The page of the bundle, beside it to be opened."""
        return self.outdir / f"{self.bundle_name}.html"

    @property
    def cache(self) -> Path:
        """A folder for what compilers and emulators keep; never part of a result."""
        return self.origin.cache if self.origin else self.outdir / ".cache"

    @cached_property
    def not_built(self) -> str:
        """Why nothing is compiled: what is missing here of the platform's SDK; empty if all is."""
        return explain_not_built(self.build)

    @property
    def has_firmware(self) -> bool:
        """Whether the firmware is compiled and linked."""
        return not self.not_built

    @property
    def can_emulate(self) -> bool:
        """Whether an emulator, or this machine, can run what is linked."""
        return self.has_firmware and bool(self.platform.emulators)

    @property
    def is_run(self) -> bool:
        """Whether the firmware runs: in an emulator, on a board or on this machine."""
        return self.has_firmware and (self.can_emulate or self.recipe.run.board is not None)

    @property
    def counts_instructions(self) -> bool:
        """Whether the run counts them: in unicorn, and in a QEMU for a whole machine with plugins.

        QEMU's user mode counts those of programs with symbols alone, which is known too late.
        """
        emulated = self.can_emulate and self.recipe.run.board is None
        return emulated and (self.emulator == "unicorn" or self._has_counting_qemu)

    @cached_property
    def _has_counting_qemu(self) -> bool:
        if self.emulator != "qemu" or self.platform.qemu is None:
            return False
        program = which(self.platform.qemu.program)
        # Imported late: most platforms run in unicorn.
        from firmwright.emulator.qemu import takes_plugins

        return program is not None and takes_plugins(program)

    @property
    def box_pictures(self) -> dict[Path, Path]:
        """Map the pictures with boxes that the last run drew to where they go beside the bundle.

        They are those of the first inference, of a batch as many as the recipe wants.
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
        """Where the recipe's data files are, and where fetched ones are kept."""
        return DataFolders(self.recipe.path.parent, self.cache)

    @property
    def board_access(self) -> str | None:
        """The file that reaches a board at hand, seen from here; None where an emulator runs."""
        board = self.recipe.run.board
        return None if board is None else os.path.relpath(self.recipe.resolve(board))

    @property
    def lock_files(self) -> list[Path]:
        """Return the recipe's lock, where there is one."""
        path = lock_path(self.recipe.path)
        return [path] if path.exists() else []

    @property
    def tuned_files(self) -> list[Path]:
        """Return the file with the ways of the layers, where there is one."""
        if self.ways is not None:
            return [self.ways]
        path = tuned_path(self.recipe.path)
        return [path] if self.origin is None and path.exists() else []

    @property
    def description_files(self) -> dict[str, Path]:
        """Return what the bundle has beside the recipe: lock, ways, platform and toolchain."""
        recipe, folder = self.recipe, self.recipe.path.parent
        toolchain = TOOLCHAINS.find_file(find_toolchain(recipe, self.platform))
        return {
            **{f"{recipe.name}.lock": path for path in self.lock_files},
            **{f"{recipe.name}.tuned": path for path in self.tuned_files},
            f"platforms/{self.platform.name}.yaml": PLATFORMS.find_file(recipe.platform, folder),
            f"toolchains/{self.build.toolchain.name}.yaml": toolchain,
        }

    @cached_property
    def device_files(self) -> list[Path]:
        """Return the files of the devices that do not come with firmwright."""
        return device_files(self.recipe)

    @cached_property
    def packages(self) -> frozenset[str]:
        """The packages whose versions decide about the results of devices and of user's Python."""
        of_devices = (d.target.packages for job in self.all_jobs for d in job.mix)
        code = find_installed_code(self.recipe)
        return code.packages.union(*of_devices)

    @property
    def platform_files(self) -> list[Path]:
        """Return the user's own files of the board and of the toolchain."""
        toolchain = find_toolchain(self.recipe, self.platform)
        own = [Path(toolchain)] if is_own_file(toolchain) else []
        return [*list_own_files(self.platform.board), *own]

    @cached_property
    def build_settings(self) -> dict[str, Any]:
        """Return everything of platform and toolchain that decides about objects and firmware."""
        return collect_settings(self.build)

    @property
    def compiler(self) -> Tool:
        """The compiler of the firmware."""
        return compiler_tool(self.build, self.recipe.list_files("libraries"))

    def note(self, text: str) -> None:
        """Tell the user something about the network; it is shown below the stage."""
        self.notes.append(text)
