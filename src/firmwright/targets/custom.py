"""Devices of a user's own, which a recipe names: ``devices: {npu: "npu:NPU"}``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from firmwright.custom.code import (
    IMPORT_LOCK,
    explain_error,
    import_function,
    locate_definition,
    prepend_import_path,
    run_custom_code,
)
from firmwright.errors import UserError
from firmwright.targets import Context, Target

if TYPE_CHECKING:
    import tvm

    from firmwright.ir.kernels import LoweredRegion
    from firmwright.ir.regions import Change, Region, Suggestion
    from firmwright.targets.layout import Layout
    from firmwright.targets.placement import Placement

T = TypeVar("T")

TARGET_MEMBERS = sorted({*Target.__annotations__, "operators", "options", "prepare", "place",
                          "layout", "lower", "describe_kernel", "estimate_cycles", "suggest",
                          "extend_project"})  # fmt: skip
"""What a target has."""


class CustomTarget:
    """A user's target. What it raises, or returns by mistake, is told with the user's file."""

    def __init__(self, target: Target, reference: str, folder: Path) -> None:
        self._target, self._reference, self._folder = target, reference, folder
        self.name, self.reason = target.name, target.reason
        self.options, self.operators = target.options, target.operators
        self.is_fallback = target.is_fallback
        self.rewrites, self.packages = target.rewrites, target.packages
        self.is_portable, self.core = target.is_portable, target.core
        self.quantizes = target.quantizes
        self.machines, self.stages = target.machines, target.stages
        self.libraries_variable = target.libraries_variable

    def prepare(self, module: tvm.IRModule, context: Context, /) -> tvm.IRModule:
        import tvm

        return self._call(self._target.prepare, (tvm.IRModule,), module, context)

    def place(self, module: tvm.IRModule, context: Context, /) -> Placement:
        from firmwright.targets.placement import Placement

        return self._call(self._target.place, (Placement,), module, context)

    def layout(self, context: Context, /) -> Layout | None:
        return self._call(self._target.layout, (object,), context)

    def lower(self, region: Region, module: tvm.IRModule, context: Context, /) -> LoweredRegion:
        from firmwright.ir.kernels import LoweredRegion

        return self._call(self._target.lower, (LoweredRegion,), region, module, context)

    def describe_kernel(self, region: Region, module: tvm.IRModule, context: Context, /) -> str:
        return self._call(self._target.describe_kernel, (str,), region, module, context)

    def estimate_cycles(
        self,
        region: Region,
        module: tvm.IRModule,
        context: Context,
        changes: Sequence[Change] = (),
        /,
    ) -> int | None:
        kinds = (int, type(None))
        return self._call(
            self._target.estimate_cycles, kinds, region, module, context, tuple(changes)
        )

    def suggest(
        self, region: Region, module: tvm.IRModule, context: Context, /
    ) -> Sequence[Suggestion]:
        return self._call(self._target.suggest, (tuple, list), region, module, context)

    def extend_project(
        self, project: Path, variables: Mapping[str, Any], context: Context, /
    ) -> None:
        self._call(self._target.extend_project, (type(None),), project, variables, context)

    def _call(self, method: Callable[..., T], kinds: tuple[type, ...], *given: Any) -> T:
        with IMPORT_LOCK, prepend_import_path(self._folder):
            try:
                result = method(*given)
            except UserError:
                raise  # what the device itself, or one behind it, says to the user
            except (Exception, SystemExit) as error:
                raise UserError(explain_error(error, self._reference, self._folder)) from None
        if not isinstance(result, kinds):
            raise UserError(
                f"{locate_definition(self._reference, self._folder)}: {method.__name__} returned a "
                f"{type(result).__name__}; expected a {kinds[0].__name__} ({self._reference})"
            )
        return result


def load_custom_target(name: str, reference: str, folder: Path) -> CustomTarget:
    """Import the device ``module:function`` of a recipe's ``folder`` that is called ``name``.

    Raises UserError, with the user's file and line, for what cannot be imported or called, for
    something that is no target, and for one that has another name, or adds stages or machines.
    """
    with IMPORT_LOCK, prepend_import_path(folder):
        make = import_function(reference, folder)
        target = run_custom_code(make, reference, folder)
        missing = [member for member in TARGET_MEMBERS if not hasattr(target, member)]
        place = locate_definition(reference, folder)
    if missing:
        raise UserError(
            f"{place}: {reference} makes a {type(target).__name__}, which is no device: it has no "
            f"{', '.join(missing)}; derive it from firmwright.targets.Target"
        )
    if target.name != name:
        raise UserError(
            f"{place}: the device's name is '{target.name}', the recipe calls it '{name}'"
        )
    if target.stages or target.machines:
        raise UserError(f"{place}: only an installed device adds stages and machines ({reference})")
    return CustomTarget(target, reference, folder)


def template_folder(reference: str, folder: Path) -> Path:
    """Return where the C templates of a user's device are: ``templates`` beside its module."""
    module = reference.partition(":")[0]
    return folder.joinpath(*module.split(".")).parent / "templates"
