"""Finds the custom code of a recipe: devices, templates and Python modules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

from firmwright.custom.installed_modules import InstalledCode, find_installed
from firmwright.custom.source_files import trace_imports
from firmwright.plugins import list_tflite_vendors
from firmwright.recipe.recipe import Recipe
from firmwright.targets import Target
from firmwright.targets.custom import CustomTarget, load_custom_target, template_folder
from firmwright.targets.load_devices import load_target
from firmwright.toolchain import Platform

SUFFIXES = frozenset({".py", ".yaml", ".j2"})


def load_custom_targets(recipe: Recipe) -> dict[str, Target]:
    folder = recipe.path.parent
    return {
        name: cast(Target, load_custom_target(name, reference, folder))
        for name, reference in recipe.devices.items()
    }


def find_packages(recipe: Recipe) -> dict[str, Path]:
    """Return a mapping from installed packages to the folders whose files the build reads.

    These packages contain devices of the target, or modules that the recipe's Python code imports.
    """
    devices = {t.package: t.module.parent for _, t in find_installed_devices(recipe)}
    return {**devices, **find_installed_code(recipe).folders}


def find_installed_code(recipe: Recipe) -> InstalledCode:
    """Return the installed modules that the recipe's Python code and installed devices import."""
    names = {target.module_name for _, target in find_installed_devices(recipe)}
    for function in recipe.functions:
        names |= trace_imports(function.partition(":")[0], recipe.path.parent)[1]
    return find_installed(names)


def find_installed_devices(recipe: Recipe) -> Iterator[tuple[str, CustomTarget]]:
    """Yield the devices of the target that other installed packages provide."""
    for device in dict.fromkeys(d.name for d in (*recipe.target, *recipe.compare)):
        if device not in recipe.devices:
            target = load_target(device)
            if isinstance(target, CustomTarget):
                yield device, target


def template_folders(recipe: Recipe) -> dict[str, Path]:
    """Return a mapping from devices to the ``templates`` folders next to the devices' modules."""
    folder = recipe.path.parent
    custom = {
        name: template_folder(reference, folder) for name, reference in recipe.devices.items()
    }
    installed = {n: t.module.parent / "templates" for n, t in find_installed_devices(recipe)}
    return custom | installed


def find_driven(names: Iterable[str], recipe: Recipe, platform: Platform) -> list[str]:
    """Return the devices that need the board's code, in the order of ``names``."""
    # The import loads jinja2 and numpy, which a build that is up to date does not need.
    from firmwright.project.project_files import list_templates

    roots = tuple(template_folders(recipe).values())
    board, known = platform.board, platform.accelerators
    return [name for name in names if name in known or list_templates(f"{name}/{board}", roots)]


def find_unpackaged_drivers(recipe: Recipe, platform: Platform) -> Iterator[str]:
    """Yield an error for each device of the target whose driver depends on the board."""
    from firmwright.project.project_files import list_portable_drivers

    roots = tuple(template_folders(recipe).values())
    for name in find_driven((device.name for device in recipe.target), recipe, platform):
        if not list_portable_drivers(name, roots):
            yield (
                f"the driver of {name} belongs to the board {platform.board}, and packages contain "
                "no board; export with `target: c`"
            )


def device_files(recipe: Recipe) -> list[Path]:
    """Return the devices' files: modules in the recipe's folder, packages and templates.

    The files include importers of vendor-specific TFLite files.
    """
    files = set(recipe.list_files("devices"))
    for _, target in find_installed_devices(recipe):
        module = target.module
        whole = (module.parent / "__init__.py").is_file()
        paths = module.parent.rglob("*") if whole else [module]
        files.update(file for file in paths if file.suffix in SUFFIXES)
        files.update(find_installed([target.module_name]).files)
    files.update(find_installed(point.module for point in list_tflite_vendors()).files)
    for name, folder in template_folders(recipe).items():
        files.update((folder / name).rglob("*.j2"))
    return sorted(files)
