"""Loads custom devices of a recipe, ``devices: {npu: "npu:NPU"}``, or of an installed package."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from inspect import getfile, getmembers, isfunction
from pathlib import Path
from typing import Any

from firmwright.custom.code import (
    IMPORT_LOCK,
    explain_error,
    import_function,
    locate_definition,
    locate_function,
    prepend_import_path,
    run_custom_code,
)
from firmwright.errors import UserError
from firmwright.targets import Target

METHODS = frozenset(name for name, _ in getmembers(Target, isfunction) if not name.startswith("_"))
"""The methods of a target, whose results are checked."""

TARGET_MEMBERS = sorted({*Target.__annotations__, *METHODS, "operators", "options"})
"""The members that every target has."""


class CustomTarget:
    """A custom target. Errors and invalid results of the target are reported with the user's file.

    The members are the members of the target. During each call, the import path starts with
    ``folder``, unless a ``package`` has installed the target.
    """

    def __init__(self, target: Target, reference: str, folder: Path, package: str = "") -> None:
        self._target, self._reference, self._folder = target, reference, folder
        self.package = package
        self.packages: Sequence[str] = (*target.packages, *filter(None, [package]))

    def __getattr__(self, name: str) -> Any:
        if name not in TARGET_MEMBERS:
            raise AttributeError(name)
        return partial(self._call, name) if name in METHODS else getattr(self._target, name)

    @property
    def module(self) -> Path:
        return Path(getfile(type(self._target)))

    @property
    def module_name(self) -> str:
        """Return the top-level name of the module that defines the class of the target."""
        return type(self._target).__module__.partition(".")[0]

    def _call(self, name: str, *given: object) -> object:
        from firmwright.targets.result_checks import CHECKS

        method = getattr(self._target, name)
        given = tuple(tuple(each) if isinstance(each, list) else each for each in given)
        imports = nullcontext() if self.package else prepend_import_path(self._folder)
        with IMPORT_LOCK, imports:
            try:
                result = method(*given)
            except UserError:
                raise  # a message to the user, from this device or a device that it calls
            except (Exception, SystemExit) as error:
                raise UserError(explain_error(error, self._reference, self._folder)) from None
        kinds, check = CHECKS[name]
        if isinstance(result, kinds):
            problem = check(result, *given)
        else:
            problem = f"returned a {type(result).__name__}; expected {name_kinds(kinds)}"
        if problem:
            location = locate_function(method, self._reference, self._folder)
            raise UserError(f"{location}: {name}: {problem} ({self._reference})")
        return result


def name_kinds(kinds: tuple[type, ...]) -> str:
    """Return e.g. ``an int or None``."""
    names = [kind.__name__.replace("NoneType", "None") for kind in kinds]
    article = "an" if names[0][0] in "aeio" else "a"
    return f"{article} {' or '.join(names)}"


def guard_installed(target: Target, package: str) -> CustomTarget:
    """Return a target that another ``package`` installs. Manifests and locks list the package."""
    kind = type(target)
    reference = f"{kind.__module__}:{kind.__qualname__}"
    return CustomTarget(target, reference, Path(getfile(kind)).parent, package)


def load_custom_target(name: str, reference: str, folder: Path) -> CustomTarget:
    """Import the device ``name`` from ``module:function`` in a recipe's ``folder``.

    Raises UserError, with the user's file and line, if the import or the call fails. Also raises
    UserError if the result is not a target, has another name, or adds stages or machines.
    """
    with IMPORT_LOCK, prepend_import_path(folder):
        make = import_function(reference, folder)
        target = run_custom_code(make, reference, folder)
        missing = [member for member in TARGET_MEMBERS if not hasattr(target, member)]
        location = locate_definition(reference, folder)
    if missing:
        raise UserError(
            f"{location}: {reference} makes a {type(target).__name__}, which is not a device: it "
            f"has no {', '.join(missing)}; derive it from firmwright.targets.Target"
        )
    if target.name != name:
        raise UserError(
            f"{location}: the device's name is '{target.name}', but the recipe uses '{name}'; use "
            "one name"
        )
    if target.stages or target.machines:
        raise UserError(
            f"{location}: only an installed device can add stages and machines ({reference}); "
            "install it as a package"
        )
    return CustomTarget(target, reference, folder)


def template_folder(reference: str, folder: Path) -> Path:
    """Return the folder of a custom device's C templates: ``templates`` next to its module."""
    module = reference.partition(":")[0]
    return folder.joinpath(*module.split(".")).parent / "templates"
