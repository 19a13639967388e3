"""Loads custom devices of a recipe, ``devices: {npu: "npu:NPU"}``, or of an installed package."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from inspect import getfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

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
from firmwright.targets import Context, Target

if TYPE_CHECKING:
    import tvm

    from firmwright.ir.kernels import LoweredRegion
    from firmwright.ir.regions import Change, Region, RuleViolation, Suggestion
    from firmwright.targets.memory_layout import Layout
    from firmwright.targets.placement import Placement

T = TypeVar("T")

TARGET_MEMBERS = sorted({*Target.__annotations__, "operators", "options", "prepare", "place",
                          "layout", "lower", "list_variants", "describe_kernel", "estimate_cycles",
                          "complete_changes", "suggest", "list_idle_options",
                          "extend_project"})  # fmt: skip
"""The members that every target has."""


class CustomTarget:
    """A custom target. Errors and invalid results of the target are reported with the user's file.

    During each call, the import path starts with ``folder``, unless a ``package`` has installed the
    target.
    """

    def __init__(self, target: Target, reference: str, folder: Path, package: str = "") -> None:
        self._target, self._reference, self._folder = target, reference, folder
        self.package = package
        self.name, self.reason = target.name, target.reason
        self.options, self.operators = target.options, target.operators
        self.is_fallback, self.rewrites = target.is_fallback, target.rewrites
        self.packages: Sequence[str] = (*target.packages, *filter(None, [package]))
        self.is_portable, self.core = target.is_portable, target.core
        self.quantizes, self.copies = target.quantizes, target.copies
        self.keeps_states = target.keeps_states
        self.machines, self.stages = target.machines, target.stages
        self.archive_reader = target.archive_reader
        self.libraries_variable = target.libraries_variable

    @property
    def module(self) -> Path:
        return Path(getfile(type(self._target)))

    @property
    def module_name(self) -> str:
        """Return the top-level name of the module that defines the class of the target."""
        return type(self._target).__module__.partition(".")[0]

    def prepare(self, module: tvm.IRModule, context: Context, /) -> tvm.IRModule:
        import tvm

        return self._call(self._target.prepare, (tvm.IRModule,), module, context)

    def place(self, module: tvm.IRModule, context: Context, /) -> Placement:
        from firmwright.targets.placement import Placement
        from firmwright.targets.result_checks import check_placement

        method = self._target.place
        placement = self._call(method, (Placement,), module, context)
        self._refuse(method, check_placement(module, placement))
        return placement

    def layout(self, context: Context, /) -> Layout | None:
        from firmwright.targets.result_checks import check_layout

        method = self._target.layout
        layout = self._call(method, (object,), context)
        self._refuse(method, check_layout(layout))
        return layout

    def lower(self, region: Region, module: tvm.IRModule, context: Context, /) -> LoweredRegion:
        from firmwright.ir.kernels import LoweredRegion
        from firmwright.targets.result_checks import check_lowered

        method = self._target.lower
        lowered = self._call(method, (LoweredRegion,), region, module, context)
        self._refuse(method, check_lowered(region, module, lowered))
        return lowered

    def list_variants(
        self, region: Region, module: tvm.IRModule, context: Context, /
    ) -> Sequence[str]:
        method = self._target.list_variants
        variants = self._call(method, (tuple, list), region, module, context)
        self._refuse_other_than_texts(method, variants)
        return variants

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
        from firmwright.targets.result_checks import check_estimate

        method, kinds = self._target.estimate_cycles, (int, type(None))
        cycles = self._call(method, kinds, region, module, context, tuple(changes))
        self._refuse(method, check_estimate(cycles))
        return cycles

    def complete_changes(
        self, region: Region, module: tvm.IRModule, context: Context, changes: Sequence[Change], /
    ) -> Sequence[Change] | RuleViolation:
        from firmwright.ir.regions import RuleViolation
        from firmwright.targets.result_checks import check_changes

        method, kinds = self._target.complete_changes, (tuple, list, RuleViolation)
        found = self._call(method, kinds, region, module, context, tuple(changes))
        self._refuse(method, check_changes(found))
        return found

    def suggest(
        self, region: Region, module: tvm.IRModule, context: Context, /
    ) -> Sequence[Suggestion]:
        from firmwright.targets.result_checks import check_suggestions

        method = self._target.suggest
        suggestions = self._call(method, (tuple, list), region, module, context)
        self._refuse(method, check_suggestions(suggestions))
        return suggestions

    def list_idle_options(
        self, regions: Sequence[Region], module: tvm.IRModule, context: Context, /
    ) -> Sequence[str]:
        method = self._target.list_idle_options
        notes = self._call(method, (tuple, list), regions, module, context)
        self._refuse_other_than_texts(method, notes)
        return notes

    def extend_project(
        self, project: Path, variables: Mapping[str, Any], context: Context, /
    ) -> None:
        self._call(self._target.extend_project, (type(None),), project, variables, context)

    def _refuse_other_than_texts(
        self, method: Callable[..., object], found: Sequence[object]
    ) -> None:
        if not all(isinstance(text, str) for text in found):
            self._refuse(method, f"returned {found!r}; expected a list of strings")

    def _refuse(self, method: Callable[..., object], mistake: str) -> None:
        """Raise UserError, with the method's line, if ``mistake`` is not ''."""
        if mistake:
            location = locate_function(method, self._reference, self._folder)
            raise UserError(f"{location}: {method.__name__}: {mistake} ({self._reference})")

    def _call(self, method: Callable[..., T], kinds: tuple[type, ...], *given: Any) -> T:
        imports = nullcontext() if self.package else prepend_import_path(self._folder)
        with IMPORT_LOCK, imports:
            try:
                result = method(*given)
            except UserError:
                raise  # a message to the user, from this device or a device that it calls
            except (Exception, SystemExit) as error:
                raise UserError(explain_error(error, self._reference, self._folder)) from None
        if not isinstance(result, kinds):
            problem = f"returned a {type(result).__name__}; expected {name_kinds(kinds)}"
            self._refuse(method, problem)
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
