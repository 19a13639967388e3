"""The devices of a recipe that do not come with firmwright: their code and their templates."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import getfile
from pathlib import Path

import firmwright
from firmwright.recipe import Recipe
from firmwright.targets import Target, load_target
from firmwright.targets.custom import load_custom_target, template_folder

PACKAGE = Path(firmwright.__file__).parent
SUFFIXES = frozenset({".py", ".yaml", ".j2"})


def load_custom_targets(recipe: Recipe) -> dict[str, Target]:
    """Import the devices that the recipe brings along."""
    folder = recipe.path.parent
    return {
        name: load_custom_target(name, reference, folder)
        for name, reference in recipe.devices.items()
    }


def find_installed_devices(recipe: Recipe) -> Iterator[tuple[str, Path]]:
    """Yield the devices of the mix that other packages have installed, with their modules."""
    for device in dict.fromkeys(d.name for d in (*recipe.target, *recipe.compare)):
        if device not in recipe.devices:
            module = Path(getfile(type(load_target(device))))
            if not module.is_relative_to(PACKAGE):
                yield device, module


def template_folders(recipe: Recipe) -> dict[str, Path]:
    """Return the folder of templates of each device: ``templates`` beside its module."""
    folder = recipe.path.parent
    own = {name: template_folder(reference, folder) for name, reference in recipe.devices.items()}
    installed = {n: module.parent / "templates" for n, module in find_installed_devices(recipe)}
    return own | installed


def device_files(recipe: Recipe) -> list[Path]:
    """Return the files of the devices: modules of the recipe's folder, packages, templates."""
    files = set(recipe.list_files("devices"))
    for _, module in find_installed_devices(recipe):
        whole = (module.parent / "__init__.py").is_file()
        found = module.parent.rglob("*") if whole else [module]
        files.update(file for file in found if file.suffix in SUFFIXES)
    for name, folder in template_folders(recipe).items():
        files.update((folder / name).rglob("*.j2"))
    return sorted(files)
