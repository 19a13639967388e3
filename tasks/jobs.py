"""What the command line asks for: recipes, each with its platform, toolchain and build folder."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from doit import doit_cmd, get_var

from firmwright.errors import Diagnostic, DiagnosticError, UserError, did_you_mean
from firmwright.recipe import Catalogue, KnownDevice, Recipe, load_recipe
from firmwright.recipe.recipe import is_platform_file, lock_path
from firmwright.targets import Device, load_mix, load_target, target_names
from firmwright.toolchain import (
    Build,
    Platform,
    load_platform,
    load_toolchain,
    module_build,
    on_host,
    platform_names,
    toolchain_names,
)

from .compilers import settings_of
from .devices import device_files, own_targets

if TYPE_CHECKING:
    from firmwright.data.samples import Place

OVERRIDES = ("platform", "compile_for_device", "target", "toolchain", "emulator", "samples",
             "batch", "compare")  # fmt: skip
VARIABLES = ("recipe", "outdir", *OVERRIDES)
SHARED_STAGES = frozenset({"partition", "kernels", "accuracy"})
"""Stages whose results do not depend on the platform, unless one of the devices does, or a batch
is fitted to the platform's memory."""
TARGET_STAGES = frozenset({"batch", "partition", "artifacts", "kernels", "plan", "sources",
                           "objects", "firmware", "run", "stats"})  # fmt: skip
"""What a network that is compiled for a second target goes through; the rest it shares."""
COUNTING_EMULATORS = frozenset({"unicorn"})
"""Emulators that count instructions."""


FIRMWARE_STAGES = frozenset({"objects", "firmware", "run", "stats", "comparison", "mapping",
                             "bundle"})  # fmt: skip
"""Stages that a platform without an emulator does without: its SDK builds the project."""


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
    module: Build | None = None
    origin: Job | None = None

    @property
    def network(self) -> str:
        """The stage that gives the network as it is compiled; its model is what judges."""
        return "quantized" if self.recipe.quantize else "model"

    def folder(self, stage: str) -> Path:
        """Return a stage's result folder, below the platform's own where it depends on it."""
        if self.origin and not self.makes(stage):
            return self.origin.folder(stage)
        if self.shared(stage):
            return self.outdir / stage
        return self.outdir / self.platform.name / stage

    def has(self, stage: str) -> bool:
        """Tell whether this recipe has work for a stage."""
        recipe = self.recipe
        asked: dict[str, object] = {
            "batch": recipe.batch,
            "artifacts": any(d.name == "tidl" for d in recipe.target) or None,
            "calibration": recipe.quantize,
            "quantized": recipe.quantize,
            "accuracy": recipe.evaluate,
            "comparison": recipe.compare or None,
            "mapping": recipe.compare or None,
            "demo": recipe.demo,
        }
        if stage == "module":
            return self.module is not None and bool(os.environ.get(self.module.toolchain.variable))
        if stage in FIRMWARE_STAGES and not self.platform.emulators:
            return False
        if stage in ("stats", "comparison") and self.emulator not in COUNTING_EMULATORS:
            return False
        if stage == "mapping" and self.platform.timing is None:
            return False
        return stage not in asked or asked[stage] is not None

    def makes(self, stage: str) -> bool:
        """Tell whether a stage's results are this job's own, not those of its origin."""
        return self.origin is None or stage in TARGET_STAGES

    @cached_property
    def other(self) -> Job | None:
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
        return replace(self, recipe=recipe, outdir=outdir, module=None, origin=self)

    def shared(self, stage: str) -> bool:
        if stage in SHARED_STAGES:
            return self.recipe.batch is None and self.portable
        return stage in ("model", "calibration", "quantized")

    @property
    def portable(self) -> bool:
        """Tell whether no device of the mix depends on the platform."""
        return all(device.target.portable for device in self.mix)

    @cached_property
    def mix(self) -> tuple[Device, ...]:
        recipe = self.recipe
        own = own_targets(recipe)
        batch = recipe.batch.size if recipe.batch else 1
        fused = recipe.fuse_layers
        return load_mix(recipe.target, self.platform, recipe.rounding, fused, own, batch)

    def task(self, stage: str) -> str:
        """Return the name of a stage's task; doit remembers each platform's by itself."""
        return (
            f"{stage}:{self.recipe.name}" if self.shared(stage) else f"{stage}:{self.bundle_name}"
        )

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
        if self.has("bundle"):
            return "bundle"
        return "demo" if self.has("demo") else "sources"

    @cached_property
    def model_path(self) -> Path | None:
        path = self.recipe.model.path
        return None if path is None else self.recipe.resolve(path)

    @property
    def boxes_pictures(self) -> list[Path]:
        """Return where the first sample's picture with its boxes goes, if there is one."""
        inputs = self.recipe.run.inputs
        named = inputs if isinstance(inputs, tuple) else ()
        shown = self.recipe.detection and any(s.kind == "pictures" for _, s in named)
        return [self.outdir / f"{self.bundle_name}-boxes.png"] if shown else []

    @property
    def place(self) -> Place:
        """Where the recipe's data files are, and where fetched ones are kept."""
        from firmwright.data.samples import Place

        return Place(self.recipe.path.parent, self.cache)

    @property
    def locks(self) -> list[Path]:
        """Return the recipe's lock, where there is one."""
        path = lock_path(self.recipe.path)
        return [path] if path.exists() else []

    @property
    def platform_files(self) -> list[Path]:
        """Return the user's own platform file, where the recipe names one."""
        platform = self.recipe.platform
        return [self.recipe.resolve(platform)] if is_platform_file(platform) else []

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

    @property
    def builds(self) -> list[Build]:
        """Return what compiles: the platform's toolchain, and a module's where one is built."""
        return [self.build, *([self.module] if self.module and self.has("module") else [])]

    @cached_property
    def build_settings(self) -> dict[str, Any]:
        """Return everything of platform and toolchain that decides about objects and firmware."""
        return settings_of(self.build)


def build_root() -> Path:
    """Return the folder that holds doit's state: ``outdir=``, else ``build``."""
    return Path(get_var("outdir", "build"))


def load_jobs() -> list[Job]:
    """Read every recipe that ``recipe=`` names (comma-separated), or all of ``recipes/``.

    Raises DiagnosticError with the mistakes of all of them.
    """
    check_variables()
    overrides = {k: str(get_var(k)) for k in OVERRIDES if get_var(k) is not None}
    root = prepared_root()
    paths = recipe_paths()
    catalogue = installed()
    found: list[Diagnostic] = []
    jobs: list[Job] = []
    for path in paths:
        try:
            recipe = load_recipe(path, overrides, catalogue, cache=root / ".recipes")
            jobs.append(make_job(recipe, root, several=len(paths) > 1))
        except DiagnosticError as error:
            found.extend(error.diagnostics)
        except UserError as error:
            found.append(Diagnostic(str(path), 0, 0, str(error)))
    if found:
        raise DiagnosticError(found)
    refuse_shared_folders(jobs)
    return jobs


def check_variables() -> None:
    given = doit_cmd._CMDLINE_VARS or {}
    for name in sorted(set(given) - set(VARIABLES)):
        raise UserError(f"{name}=: unknown variable '{name}'{did_you_mean(name, VARIABLES)}")
    for name, value in sorted(given.items()):
        if not value:
            raise UserError(f"{name}=: a value is missing")


def recipe_paths() -> list[Path]:
    named = get_var("recipe")
    if named is None:
        found = sorted(Path("recipes").glob("*.yaml"))
        if not found:
            raise UserError("no recipe: name one (recipe=my.yaml) or put some into recipes/")
        return found
    paths = [Path(part.strip()) for part in named.split(",") if part.strip()]
    return list(dict.fromkeys(paths))


def prepared_root() -> Path:
    root = build_root()
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the build folder {root}: {error.strerror}") from None
    if not os.access(root, os.W_OK):
        raise UserError(f"cannot write to the build folder {root}; choose another with outdir=")
    return root


def installed() -> Catalogue:
    platforms = {name: load_platform(name) for name in platform_names()}
    targets = {name: load_target(name) for name in target_names()}
    return Catalogue(
        platforms=tuple(platforms),
        toolchains=toolchain_names(),
        devices={n: KnownDevice(t.options, t.general) for n, t in targets.items()},
        platform_toolchains={n: p.toolchains for n, p in platforms.items()},
        platform_emulators={n: p.emulators for n, p in platforms.items()},
        platform_aliases={a: n for n, p in platforms.items() for a in p.aliases},
        platform_hosts={n: p.host for n, p in platforms.items() if p.host},
    )


def make_job(recipe: Recipe, root: Path, several: bool) -> Job:
    platform = load_platform(recipe.platform, recipe.path.parent)
    if not recipe.compile_for_device:
        platform = on_host(platform)
    refuse_missing_devices(recipe, platform)
    toolchain = load_toolchain(recipe.toolchain or platform.toolchains[0])
    build = Build(toolchain, platform, recipe.cflags)
    alone = get_var("outdir") is not None and not several
    module = module_build(platform, recipe.target[-1].name)
    return Job(recipe, platform, build, root if alone else root / recipe.name, module)


def refuse_missing_devices(recipe: Recipe, platform: Platform) -> None:
    """Raise UserError for a device of the mix that the platform does not have."""
    own = own_targets(recipe)
    for device in (*recipe.target, *recipe.compare):
        target = own.get(device.name) or load_target(device.name)
        if target.portable or device.name in platform.accelerators:
            continue
        having = [n for n in platform_names() if device.name in load_platform(n).accelerators]
        raise UserError(
            f"target: the platform '{platform.name}' has no '{device.name}'; platforms that have "
            f"it: {', '.join(having)}"
        )


def refuse_shared_folders(jobs: list[Job]) -> None:
    paths: dict[str, Path] = {}
    for job in jobs:
        name = job.recipe.name
        if name in paths:
            raise UserError(
                f"{paths[name]} and {job.recipe.path} are both named '{name}' and would share a "
                "build folder; give one of them another `name:`"
            )
        paths[name] = job.recipe.path


def complain(error: UserError) -> None:
    """Print a user's mistake and nothing else."""
    print(error, file=sys.stderr)
