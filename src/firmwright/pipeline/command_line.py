"""Reads recipes, and the arguments that replace their values, from the command line."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from importlib import reload
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

from doit import doit_cmd, get_var
from doit.cmd_base import ModuleTaskLoader
from doit.doit_cmd import DoitMain

from firmwright.documents.chain import Layers
from firmwright.errors import Diagnostic, DiagnosticError, UserError, suggest_known
from firmwright.hardware.access import check_access, list_images
from firmwright.recipe.build_systems import find_unfit_exports
from firmwright.recipe.catalog import Catalog, KnownDevice, KnownPlatform
from firmwright.recipe.custom_code import find_custom_code
from firmwright.recipe.load_recipe import load_recipe, make_layers
from firmwright.recipe.memory_key import find_pin_errors
from firmwright.recipe.moved_paths import rebase_argument
from firmwright.recipe.networks_file import names_networks
from firmwright.recipe.overrides import complete_key, is_key, list_overrides, refuse_unknown_key
from firmwright.recipe.recipe import Recipe
from firmwright.targets.load_devices import load_target, target_names
from firmwright.toolchain import (
    Build,
    Platform,
    Toolchain,
    load_platform,
    load_toolchain,
    platform_names,
    to_host_platform,
    toolchain_names,
)
from firmwright.toolchain.emulator_names import emulator_names
from firmwright.tvm_import import check_versions

from .budget import check_measurable
from .build_root import prepare_build_root
from .code_digest import CODE_FOLDERS, code_digest
from .devices import find_unpackaged_drivers, load_custom_targets
from .idle_keys import list_idle_arguments, list_idle_keys
from .job import Job, Stage, find_toolchain
from .network_jobs import make_network_jobs
from .ownership import refuse_taken_folder
from .profile import DEBUG, DRY_RUN, LOG, PROFILE, VERBOSE, WHY
from .recipe_arguments import TASKS, choose_recipes, find_recipes, find_start, read_platforms

NO_USER_CODE = "no_user_code"
NO_USER_CODE_VARIABLE = "FIRMWRIGHT_NO_USER_CODE"
SCHEDULER = "scheduler"
UPDATE = "update"
SWITCHES = (NO_USER_CODE, PROFILE, WHY, DRY_RUN, VERBOSE, DEBUG)
VARIABLES = ("recipe", "outdir", *SWITCHES, LOG, SCHEDULER, UPDATE, *list_overrides())
"""The arguments ``name=value`` of the command line, in addition to the keys of a recipe."""

LISTS = ("recipe", "platform")
"""The arguments that accept several values."""

given_arguments: list[str] = []
"""The arguments of a command other than doit."""


def load_jobs(pipeline: tuple[Stage, ...], of_networks: tuple[Stage, ...]) -> list[Job]:
    """Return the jobs of the command line's recipes, by default of all recipes in ``recipes/``.

    ``of_networks`` are the stages of a firmware with several networks. Raises WrongVersionError if
    TVM has a wrong version, and DiagnosticError with the errors of all recipes.
    """
    check_versions()
    check_variables()
    root = prepare_build_root()
    recipes = find_recipes()
    load = partial(load_each, root=root, catalogue=make_catalog(), alone=len(recipes) == 1)
    diagnostics: list[Diagnostic] = []
    jobs: list[Job] = []
    for layers, overrides in product(choose_recipes(recipes), list_overrides_by_platform()):
        try:
            made = load(layers, overrides, pipeline, of_networks)
            for job in made:
                refuse_taken_folder(job)
            jobs += made
        except DiagnosticError as error:
            diagnostics.extend(error.diagnostics)
        except UserError as error:
            diagnostics.append(Diagnostic(str(layers), 0, 0, str(error)))
    if diagnostics:
        raise DiagnosticError(dict.fromkeys(diagnostics))  # several platforms may cause one error
    refuse_shared_folders(jobs)
    refuse_shared_tasks(jobs)
    return jobs


def load_each(
    layers: Layers,
    overrides: Mapping[str, str],
    pipeline: tuple[Stage, ...],
    of_networks: tuple[Stage, ...],
    root: Path,
    catalogue: Catalog,
    alone: bool,
) -> list[Job]:
    """Return the jobs of a recipe for one platform.

    If ``alone`` is true, the recipe may use the whole build root.
    """
    several = names_networks(layers)
    make = partial(
        make_job, overrides=overrides, root=root, pipeline=pipeline, alone=alone and not several
    )
    rebase = partial(rebase_overrides, overrides)
    cache = root / ".recipes"
    if several:
        return make_network_jobs(layers, rebase, catalogue, cache, make, of_networks)
    return [make(load_recipe(layers, rebase(layers), catalogue, cache))]


def set_variables(arguments: Sequence[str]) -> None:
    """Pass the ``name=value`` arguments of a command line to doit's ``get_var``."""
    given_arguments[:] = arguments
    DoitMain.process_args(DoitMain, arguments)
    if TASKS in sys.modules:  # with the arguments of an earlier command
        reload(sys.modules[TASKS])


def run_tasks(task_file: ModuleType | Mapping[str, Any], arguments: Sequence[str]) -> int:
    """Run doit's command on the tasks of a module or mapping, and return the exit code.

    doit's configuration is not read, because it names plug-ins and output files.
    """
    return DoitMain(ModuleTaskLoader(task_file), config_filenames=()).run(arguments) or 0


def check_variables() -> None:
    """Raise UserError if an argument ``name=value`` is unknown, incomplete or contradictory."""
    given = doit_cmd._CMDLINE_VARS or {}
    reject_repeated_arguments()
    for name in SWITCHES:
        if given.get(name, "0") not in ("0", "1", ""):
            raise UserError(f"{name}={given[name]}: expected 1 or 0")
    for name in sorted(set(given) - set(VARIABLES)):
        refuse_unknown_key(name, VARIABLES)
    for name, value in sorted(given.items()):
        if not value:
            raise UserError(f"{name}=: a value is missing; write {name}=VALUE, or remove it")
    if SCHEDULER in given and "tune" not in {argument.partition(":")[0] for argument in sys.argv}:
        message = "only `doit tune` and `doit fleet` run on a cluster"
        raise UserError(f"{SCHEDULER}={given[SCHEDULER]}: {message}")
    read_platforms()


def reject_repeated_arguments() -> None:
    """Raise UserError if a variable or a key occurs twice on the command line."""
    typed = [text.partition("=")[0] for text in given_arguments or sys.argv[1:] if "=" in text]
    names = [complete_key(key) for key in typed if not key.startswith("-")]
    for key, name in zip(typed, names, strict=False):
        if names.count(name) > 1:
            hint = "join the values with commas" if name in LISTS else "remove one"
            raise UserError(f"{key}=: is set {names.count(name)} times; {hint}")


def add_no_user_code(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--no-user-code", action="store_true", help="reject recipes that run custom code"
    )


def refuses_code() -> bool:
    """Return whether the command line, or else the environment, forbids custom code."""
    given = get_var(NO_USER_CODE)
    if given is None:
        given = os.environ.get(NO_USER_CODE_VARIABLE, "")
    return given not in ("", "0")


def check_custom_code(layers: Layers) -> None:
    """Print a list of a recipe's custom Python code before any of the code runs.

    Raises DiagnosticError if custom code is not allowed.
    """
    custom_code = find_custom_code(layers)
    if custom_code and refuses_code():
        refused = f"not allowed with {NO_USER_CODE}"
        located = (code.location for code in custom_code)
        raise DiagnosticError(replace(p, message=f"{p.message}; {refused}") for p in located)
    python = list(dict.fromkeys(code.python for code in custom_code if code.python))
    if python:
        say_once(f"{layers}: runs custom Python: {', '.join(python)}")


@cache  # once for all platforms
def say_once(sentence: str) -> None:
    print(sentence, file=sys.stderr)


def list_overrides_by_platform() -> list[dict[str, str]]:
    """Return the arguments that replace keys, per platform. Short names are first."""
    given = doit_cmd._CMDLINE_VARS or {}
    ordered = dict.fromkeys([*(name for name in list_overrides() if name in given), *given])
    overrides = {name: str(given[name]) for name in ordered if is_key(name)}
    return [{**overrides, "platform": name} for name in read_platforms()] or [overrides]


def rebase_overrides(overrides: Mapping[str, str], layers: Layers) -> dict[str, str]:
    """Report the recipe's custom code, and return the overrides of the recipe."""
    # Users type short names, but the file of a fleet may state any key.
    stated = {key: text for key, text in overrides.items() if key not in list_overrides()}
    check_custom_code(make_layers(layers, stated))
    return rebase_paths(overrides, layers.path)


def rebase_paths(overrides: Mapping[str, str], recipe: Path) -> dict[str, str]:
    """Return the overrides with paths that are relative to the recipe's folder.

    The paths in the arguments are relative to the current folder. Raises UserError if a file is
    missing.
    """
    rebased = dict(overrides)
    for name, text in overrides.items():
        if name not in list_overrides():
            rebased[name] = rebase_argument(name, text, find_start(), recipe.parent)
            continue
        file = list_overrides()[name].find_file(text)
        if file and not (find_start() / file).is_file():
            raise UserError(
                f"{name}={text}: no such file; its path is relative to the current folder"
            )
        if file and not Path(file).is_absolute():
            rebased[name] = os.path.relpath(find_start() / file, recipe.parent)
    return rebased


def make_catalog() -> Catalog:
    """Return the platforms, toolchains, devices and emulators that a recipe may name."""
    targets = {name: load_target(name) for name in target_names()}
    return Catalog(
        ReadyPlatforms(),
        toolchain_names(),
        {n: KnownDevice(dict(t.options), t.is_fallback) for n, t in targets.items()},
        code_digest(CODE_FOLDERS),
        emulator_names(),
    )


class ReadyPlatforms(Mapping[str, KnownPlatform]):
    """The built-in platforms, which are read when they are used first."""

    def __getitem__(self, name: str) -> KnownPlatform:
        if name not in self._names:
            raise KeyError(name)
        loaded = load_platform(name)
        return KnownPlatform(loaded.toolchains, loaded.emulators, loaded.aliases, loaded.host)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return platform_names()


def make_job(
    recipe: Recipe,
    overrides: Mapping[str, str],
    root: Path,
    pipeline: tuple[Stage, ...],
    alone: bool,
) -> Job:
    platform = load_platform(recipe.platform, recipe.path.parent)
    if not recipe.compile_for_device:
        platform = to_host_platform(platform)
    refuse_missing_devices(recipe, platform)
    refuse_unfit_exports(recipe, platform)
    toolchain = load_toolchain(find_toolchain(recipe, platform))
    refuse_unfit_choices(recipe, platform, toolchain)
    refuse_unfit_pins(recipe, platform)
    check_board_access(recipe, platform)
    build = Build(toolchain, platform, recipe.cflags)
    outdir = root if alone and get_var("outdir") is not None else root / recipe.name
    job = Job(recipe, platform, build, outdir, pipeline, overrides)
    check_measurable(job)
    for note in (*list_idle_keys(job), *list_idle_arguments(job, sys.argv[1:], overrides)):
        say_once(note)
    return job


def refuse_unfit_choices(recipe: Recipe, platform: Platform, toolchain: Toolchain) -> None:
    """Raise DiagnosticError if the toolchain or the emulator is not for the platform.

    The catalog has already checked this for the built-in platforms.
    """
    if not toolchain.knows(platform.architecture):
        hint = suggest_known(platform.architecture, toolchain.architectures)
        message = f"the toolchain '{toolchain.name}' does not build for '{platform.architecture}'"
        raise DiagnosticError([recipe.make_diagnostic(("toolchain",), f"{message}{hint}")])
    emulator = recipe.run.emulator
    if emulator is not None and emulator not in platform.emulators:
        listed = ", ".join(platform.emulators) or "none"
        message = f"the platform '{platform.name}' does not list the emulator '{emulator}'"
        pointer = ("run", "emulator")
        raise DiagnosticError([recipe.make_diagnostic(pointer, f"{message}; it lists: {listed}")])


def refuse_unfit_pins(recipe: Recipe, platform: Platform) -> None:
    """Raise DiagnosticError if the platform does not have a memory that the recipe names."""
    errors = find_pin_errors(recipe.memory, platform)
    found_at = [recipe.make_diagnostic(("memory", error.key), str(error)) for error in errors]
    if recipe.memory and recipe.slot:
        message = "a `slot` contains the network's constants, and RAM one arena; remove the key"
        found_at.append(recipe.make_diagnostic(("memory",), message))
    if found_at:
        raise DiagnosticError(found_at)


def check_board_access(recipe: Recipe, platform: Platform) -> None:
    if recipe.run.board is not None:
        images = list_images(platform.is_bare_metal, recipe.slot is not None)
        check_access(recipe.resolve(recipe.run.board), images)


def refuse_missing_devices(recipe: Recipe, platform: Platform) -> None:
    """Raise DiagnosticError if the platform does not have a device of the target."""
    custom = load_custom_targets(recipe)
    mixes = {"target": recipe.target, "compare": recipe.compare}
    for key, device in ((key, device) for key, mix in mixes.items() for device in mix):
        target = custom.get(device.name) or load_target(device.name)
        if target.is_portable or device.name in platform.accelerators:
            continue
        having = [n for n in platform_names() if device.name in load_platform(n).accelerators]
        listed = f"platforms that have it: {', '.join(having)}"
        others = listed if having else "no built-in platform has it"
        message = f"the platform '{platform.name}' has no '{device.name}'; {others}"
        raise DiagnosticError([recipe.make_diagnostic((key,), message)])


def refuse_unfit_exports(recipe: Recipe, platform: Platform) -> None:
    """Raise DiagnosticError if a build system does not support the core, or a device's driver."""
    if recipe.export is None:
        return
    unfit = find_unfit_exports(recipe.export.to, platform)
    errors = [*unfit, *find_unpackaged_drivers(recipe, platform)]
    if errors:
        raise DiagnosticError(recipe.make_diagnostic(("export",), error) for error in errors)


def refuse_shared_tasks(jobs: list[Job]) -> None:
    """Raise UserError if two tasks have one name.

    ``partition:p-compared-host`` can be a task of ``p-compared``, or of the comparison of ``p``.
    """
    known: dict[str, tuple[Path, Job]] = {}
    for job in jobs:
        for name, folder in list_made(job):
            other_folder, other = known.setdefault(name, (folder, job))
            if other_folder != folder:
                both = " and ".join(f"{j.recipe.path} on {j.platform.name}" for j in (other, job))
                message = f"{both} would both have a stage '{name}'"
                raise UserError(f"{message}; change the `name:` of a recipe or a platform")


def list_made(job: Job) -> Iterator[tuple[str, Path]]:
    """Yield the tasks and folders of the stages that a job runs without its origin."""
    for each in job.all_jobs:
        made = filter(each.makes_stage, each.stages)
        yield from ((each.task_name(stage), each.folder(stage)) for stage in made)


def refuse_shared_folders(jobs: list[Job]) -> None:
    """Raise UserError if two recipes or two platforms have one name."""
    recipes: dict[str, Job] = {}
    platforms: dict[tuple[str, str], Job] = {}
    for job in jobs:
        name, rebase = job.recipe.name, "would share a build folder"
        other = recipes.setdefault(name, job)
        if str(other.recipe.layers) != str(job.recipe.layers) or (
            other is not job and other.overrides == job.overrides
        ):
            both = f"{other.recipe.layers} and {job.recipe.layers}"
            raise UserError(
                f"{both} are both named '{name}' and {rebase}; change the `name:` of one"
            )
        same = platforms.setdefault((name, job.platform.name), job)
        if same is not job:
            typed = f"platform={same.overrides['platform']},{job.overrides['platform']}"
            raise UserError(
                f"{typed}: both platforms are named '{job.platform.name}' and {rebase}; omit one"
            )
