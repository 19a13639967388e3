"""One recipe to build, and where: the stages that it goes through, and their folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firmwright.recipe import Recipe
from firmwright.recipe.recipe import lock_path
from firmwright.targets import Device, load_mix
from firmwright.toolchain import Build, Platform

from .compilers import collect_settings
from .devices import device_files, load_custom_targets

if TYPE_CHECKING:
    from firmwright.data.samples import DataFolders

MODEL_STAGES = frozenset({"model", "calibration", "quantized"})
"""Stages whose results do not depend on the platform."""
SHARED_STAGES = frozenset({"partition", "kernels", "accuracy"})
"""Stages whose results do not either, unless one of the devices does, or a batch is fitted to the
platform's memory."""
TARGET_STAGES = frozenset({"batch", "partition", "artifacts", "kernels", "plan", "sources",
                           "objects", "firmware", "run", "stats"})  # fmt: skip
"""What a network that is compiled for a second target goes through; the rest it shares."""
COUNTING_EMULATORS = frozenset({"unicorn"})
"""Emulators that count instructions."""


@dataclass(frozen=True)
class Job:
    """One recipe to build, and where.

    ``module`` builds what the last device's own core loads of the network, None where it has none.
    ``origin`` is the job whose network this one compiles for a second target, to be compared.
    """

    recipe: Recipe
    platform: Platform
    build: Build
    outdir: Path
    loadable_build: Build | None = None
    origin: Job | None = None

    @property
    def network_stage(self) -> str:
        """The stage that gives the network as it is compiled; its model is what judges."""
        return "quantized" if self.recipe.quantize else "model"

    def folder(self, stage: str) -> Path:
        """Return a stage's result folder, below the platform's own where it depends on it."""
        if self.origin and not self.makes_stage(stage):
            return self.origin.folder(stage)
        if self.is_shared(stage):
            return self.outdir / stage
        return self.outdir / self.platform.name / stage

    def has_stage(self, stage: str) -> bool:
        """Tell whether this recipe has work for a stage."""
        condition = STAGE_CONDITIONS.get(stage)
        return condition is None or bool(condition(self))

    def makes_stage(self, stage: str) -> bool:
        """Tell whether a stage's results are this job's own, not those of its origin."""
        return self.origin is None or stage in TARGET_STAGES

    @cached_property
    def comparison_job(self) -> Job | None:
        """The job that compiles the same network for the recipe's ``compare``."""
        if not self.recipe.compare:
            return None
        recipe = replace(
            self.recipe,
            name=f"{self.recipe.name}-compared",
            target=self.recipe.compare,
            allow_fallback=True,
            require_offload=None,
            compare=(),
            demo=None,
        )
        outdir = self.outdir / "compared"
        return replace(self, recipe=recipe, outdir=outdir, loadable_build=None, origin=self)

    def is_shared(self, stage: str) -> bool:
        if stage in SHARED_STAGES:
            return self.recipe.batch is None and self.is_portable
        return stage in MODEL_STAGES

    @property
    def is_portable(self) -> bool:
        """Tell whether no device of the mix depends on the platform."""
        return all(device.target.is_portable for device in self.mix)

    @cached_property
    def mix(self) -> tuple[Device, ...]:
        recipe = self.recipe
        own = load_custom_targets(recipe)
        batch = recipe.batch.size if recipe.batch else 1
        fused = recipe.fuse_layers
        return load_mix(recipe.target, self.platform, recipe.rounding, fused, own, batch)

    def task_name(self, stage: str) -> str:
        """Return the name of a stage's task; doit remembers each platform's by itself."""
        return f"{stage}:{self.recipe.name if self.is_shared(stage) else self.bundle_name}"

    @property
    def emulator(self) -> str:
        return self.recipe.run.emulator or self.platform.emulators[0]

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
    def cache(self) -> Path:
        """A folder for what compilers and emulators keep; never part of a result."""
        return self.origin.cache if self.origin else self.outdir / ".cache"

    @property
    def last_stage(self) -> str:
        """The stage whose result the user wants."""
        if self.has_stage("bundle"):
            return "bundle"
        return "demo" if self.has_stage("demo") else "sources"

    @cached_property
    def model_path(self) -> Path | None:
        path = self.recipe.model.path
        return None if path is None else self.recipe.resolve(path)

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
        from firmwright.data.samples import DataFolders

        return DataFolders(self.recipe.path.parent, self.cache)

    @property
    def lock_files(self) -> list[Path]:
        """Return the recipe's lock, where there is one."""
        path = lock_path(self.recipe.path)
        return [path] if path.exists() else []

    @property
    def device_files(self) -> list[Path]:
        """Return the files of the devices that do not come with firmwright."""
        return device_files(self.recipe)

    @property
    def class_files(self) -> list[Path]:
        """Return the user's file of class names, where the recipe names one."""
        detection = self.recipe.detection
        file = detection.classes.file if detection else None
        return [] if file is None or file.path is None else [self.recipe.resolve(file.path)]

    @cached_property
    def build_settings(self) -> dict[str, Any]:
        """Return everything of platform and toolchain that decides about objects and firmware."""
        return collect_settings(self.build)


def has_firmware(job: Job) -> bool:
    """Tell whether there is a firmware to run: other platforms' SDKs build the project."""
    return bool(job.platform.emulators)


def counts_instructions(job: Job) -> bool:
    return has_firmware(job) and job.emulator in COUNTING_EMULATORS


STAGE_CONDITIONS: Mapping[str, Callable[[Job], object]] = {
    "batch": lambda job: job.recipe.batch,
    "calibration": lambda job: job.recipe.quantize,
    "quantized": lambda job: job.recipe.quantize,
    "accuracy": lambda job: job.recipe.evaluate,
    "artifacts": lambda job: any(device.name == "tidl" for device in job.recipe.target),
    "module": lambda job: (
        job.loadable_build and os.environ.get(job.loadable_build.toolchain.variable)
    ),
    "objects": has_firmware,
    "firmware": has_firmware,
    "run": has_firmware,
    "stats": counts_instructions,
    "comparison": lambda job: counts_instructions(job) and job.recipe.compare,
    "mapping": lambda job: has_firmware(job) and job.recipe.compare and job.platform.timing,
    "demo": lambda job: job.recipe.demo,
    "bundle": has_firmware,
}
"""When a recipe has work for a stage; for those that are not listed, always."""
