"""The devices of a recipe that do not come with firmwright: their code and their templates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from firmwright.recipe import Recipe
from firmwright.targets import Target
from firmwright.targets.custom import CustomTarget, load_custom_target, template_folder
from firmwright.targets.load import load_target

SUFFIXES = frozenset({".py", ".yaml", ".j2"})


def load_custom_targets(recipe: Recipe) -> dict[str, Target]:
    """Import the devices that the recipe brings along."""
    folder = recipe.path.parent
    return {
        name: load_custom_target(name, reference, folder)
        for name, reference in recipe.devices.items()
    }


def find_packages(recipe: Recipe) -> dict[str, Path]:
    """Return the folders of the packages that have installed devices of the mix, by name."""
    return {target.package: target.module.parent for _, target in find_installed_devices(recipe)}


def find_installed_devices(recipe: Recipe) -> Iterator[tuple[str, CustomTarget]]:
    """Yield the devices of the mix that other packages have installed."""
    for device in dict.fromkeys(d.name for d in (*recipe.target, *recipe.compare)):
        if device not in recipe.devices:
            target = load_target(device)
            if isinstance(target, CustomTarget):
                yield device, target


def template_folders(recipe: Recipe) -> dict[str, Path]:
    """Return the folder of templates of each device: ``templates`` beside its module."""
    folder = recipe.path.parent
    own = {name: template_folder(reference, folder) for name, reference in recipe.devices.items()}
    installed = {n: t.module.parent / "templates" for n, t in find_installed_devices(recipe)}
    return own | installed


def device_files(recipe: Recipe) -> list[Path]:
    """Return the files of the devices: modules of the recipe's folder, packages, templates."""
    files = set(recipe.list_files("devices"))
    for _, target in find_installed_devices(recipe):
        module = target.module
        whole = (module.parent / "__init__.py").is_file()
        found = module.parent.rglob("*") if whole else [module]
        files.update(file for file in found if file.suffix in SUFFIXES)
    for name, folder in template_folders(recipe).items():
        files.update((folder / name).rglob("*.j2"))
    return sorted(files)
