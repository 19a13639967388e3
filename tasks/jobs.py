"""What the command line asks for: recipes, each with its platform, toolchain and build folder."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any

from doit import doit_cmd, get_var

from firmwright.errors import Diagnostic, DiagnosticError, UserError, did_you_mean
from firmwright.recipe import Catalogue, Recipe, load_recipe
from firmwright.recipe.recipe import is_platform_file, lock_path
from firmwright.targets import Device, load_mix, load_target, target_names
from firmwright.toolchain import (
    Build,
    Platform,
    load_platform,
    load_toolchain,
    platform_names,
    toolchain_names,
)

if TYPE_CHECKING:
    from firmwright.data.samples import Place

OVERRIDES = ("platform", "target", "toolchain", "emulator", "samples", "batch")
VARIABLES = ("recipe", "outdir", *OVERRIDES)
SHARED_STAGES = frozenset({"partition", "kernels", "accuracy"})
"""Stages whose results do not depend on the platform, unless one of the devices does, or a batch
is fitted to the platform's memory."""
COUNTING_EMULATORS = frozenset({"unicorn"})
"""Emulators that count instructions."""


@dataclass(frozen=True)
class Job:
    """One recipe to build, and where."""

    recipe: Recipe
    platform: Platform
    build: Build
    outdir: Path

    @property
    def network(self) -> str:
        """The stage that gives the network as it is compiled; its model is what judges."""
        return "quantized" if self.recipe.quantize else "model"

    def folder(self, stage: str) -> Path:
        """Return a stage's result folder, below the platform's own where it depends on it."""
        if self.shared(stage):
            return self.outdir / stage
        return self.outdir / self.platform.name / stage

    def has(self, stage: str) -> bool:
        """Tell whether this recipe has work for a stage."""
        recipe = self.recipe
        asked: dict[str, object] = {
            "batch": recipe.batch,
            "calibration": recipe.quantize,
            "quantized": recipe.quantize,
            "accuracy": recipe.evaluate,
        }
        if stage == "stats":
            return self.emulator in COUNTING_EMULATORS
        return stage not in asked or asked[stage] is not None

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
        return load_mix(self.recipe.target, self.platform, self.recipe.rounding)

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
        return self.outdir / ".cache"

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
    def class_files(self) -> list[Path]:
        """Return the user's file of class names, where the recipe names one."""
        detection = self.recipe.detection
        file = detection.classes.file if detection else None
        return [] if file is None or file.path is None else [self.recipe.resolve(file.path)]

    @cached_property
    def toolchain_identity(self) -> list[Any]:
        """Return what tells one installed compiler from another, without starting it."""
        toolchain = self.build.toolchain
        if toolchain.python_module:
            return [toolchain.python_module, version(toolchain.python_module)]
        program = which(toolchain.program)
        if program is None:
            return [toolchain.program]
        status = Path(program).stat()
        return [toolchain.program, status.st_size, status.st_mtime_ns]

    @cached_property
    def build_settings(self) -> dict[str, Any]:
        """Return everything of platform and toolchain that decides about objects and firmware."""
        return {
            "toolchain": self.build.toolchain.name,
            "settings": asdict(self.build.settings),
            "flags": self.build.compile_flags,
            "compile": self.build.toolchain.compile,
            "identity": self.toolchain_identity,
        }


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
    return Catalogue(
        platforms=tuple(platforms),
        toolchains=toolchain_names(),
        devices=target_names(),
        platform_toolchains={n: p.toolchains for n, p in platforms.items()},
        platform_emulators={n: p.emulators for n, p in platforms.items()},
    )


def make_job(recipe: Recipe, root: Path, several: bool) -> Job:
    for device in recipe.target:
        known = load_target(device.name).options
        for option, _ in device.options:
            if option not in known:
                hint = did_you_mean(option, known) or "; it takes none"
                raise UserError(f"target: device '{device.name}' has no option '{option}'{hint}")
    platform = load_platform(recipe.platform, recipe.path.parent)
    toolchain = load_toolchain(recipe.toolchain or platform.toolchains[0])
    build = Build(toolchain, platform, recipe.cflags)
    alone = get_var("outdir") is not None and not several
    return Job(recipe, platform, build, root if alone else root / recipe.name)


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
