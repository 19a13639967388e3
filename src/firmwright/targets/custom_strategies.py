"""Loads custom strategies: the recipe's key ``extensions`` is a list of ``module:function``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import tvm
from tvm import relax

from firmwright.custom.code import load_custom_functions, locate_function, run_custom_code
from firmwright.documents.chain import Layers, read_chain
from firmwright.errors import DiagnosticError, UserError, did_you_mean
from firmwright.lowering.strategies import Compute, Condition, LoopSchedule, Strategy, always
from firmwright.targets import Device
from firmwright.targets.custom_transforms import format_types
from firmwright.targets.load_devices import load_target, target_names


class Extension:
    """The argument of a function of ``extensions``. The function adds strategies with this object.

    ``devices`` are the names of the devices in the recipe's mix. Errors of the user's code, in the
    function or later in a strategy, are DiagnosticErrors at the function's position in the recipe.
    """

    def __init__(self, recipe: Layers, index: int, reference: str, devices: Sequence[str]) -> None:
        self.devices = tuple(devices)
        self._recipe, self._index, self._reference = recipe, index, reference
        self._added: list[tuple[str | None, Strategy]] = []

    def add(
        self,
        operator: str,
        compute: Compute | None = None,
        schedule: LoopSchedule | None = None,
        condition: Condition = always,
        device: str | None = None,
    ) -> None:
        """Add a strategy for ``operator`` (``relax.nn.max_pool2d``) on one or all devices.

        A device that passes its regions to the mix's fallback uses the fallback's strategies.
        :mod:`firmwright.lowering.strategies` describes the arguments and results of the three
        functions. Raises ValueError or TypeError if the arguments do not define a strategy.
        """
        check_operator(operator)
        check_device(device, self.devices[-1])
        if compute is None and schedule is None:
            raise ValueError(f"'{operator}': compute and schedule are missing; pass one of them")
        functions = {"compute": compute, "schedule": schedule, "condition": condition}
        for role, function in functions.items():
            if function is not None and not callable(function):
                raise TypeError(f"{role}: expected a function, found {type(function).__name__}")
        strategy = Strategy(
            operator,
            compute and self._check_results(compute),
            schedule and self._wrap_errors(schedule),
            self._wrap_errors(condition),
        )
        self._added.append((device, strategy))

    def strategies_for(self, device: str) -> list[Strategy]:
        return [strategy for wanted, strategy in self._added if wanted in (None, device)]

    def make_error(self, message: str) -> DiagnosticError:
        pointer = ("extensions", self._index)
        document = read_chain(self._recipe).document
        return DiagnosticError([document.make_diagnostic(pointer, message)])

    def _wrap_errors(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function. Errors report the file and the position in the recipe."""

        def call(*given: Any) -> Any:
            folder = self._recipe.folder
            try:
                return run_custom_code(lambda: function(*given), self._reference, folder)
            except UserError as error:
                raise self.make_error(str(error)) from None

        return call

    def _check_results(self, compute: Compute) -> Compute:
        """Return the compute with a check that its results have the operator's shape and type."""
        guarded = self._wrap_errors(compute)

        def call(builder: relax.BlockBuilder, operator: tvm.ir.Call) -> relax.Expr:
            result = guarded(builder, operator)
            problem = find_problem(result, builder, operator)
            if problem:
                location = locate_function(compute, self._reference, self._recipe.folder)
                raise self.make_error(f"{location}: {problem} ({self._reference})")
            return result

        return call


def check_operator(name: str) -> None:
    operators = [n for n in tvm.ir.Op.list_op_names() if n.startswith("relax.")]
    if name not in operators:
        raise ValueError(f"unknown operator '{name}'{did_you_mean(name, operators)}")


def check_device(name: str | None, last: str) -> None:
    """Raise ValueError if a device has no strategies.

    Only devices that end a mix have strategies.
    """
    takers = {taker for taker in target_names() if load_target(taker).is_fallback} | {last}
    if name is not None and name not in takers:
        raise ValueError(f"'{name}' has no strategies; expected one of {', '.join(sorted(takers))}")


def find_problem(result: Any, builder: relax.BlockBuilder, operator: tvm.ir.Call) -> str:
    """Return the error in the result of a compute, or '' if there is no error."""
    name = str(operator.op.name)
    if not isinstance(result, relax.Expr):
        return (
            f"returned a {type(result).__name__} for {name}; expected a Relax expression, as "
            "builder.call_te returns one"
        )
    result_type = builder.normalize(result).ty
    if str(result_type) != str(operator.ty):
        wanted = format_types([operator.ty])
        return f"returned {format_types([result_type])} for {name}; it has to be {wanted}"
    return ""


@contextmanager
def load_extensions(
    mix: Sequence[Device], references: Sequence[str], recipe: Layers
) -> Iterator[tuple[Device, ...]]:
    """Yield the devices of a recipe's mix with the user's strategies for each device."""
    if not references:  # the block below disables byte code, so its imports are slow
        yield add_strategies(mix, ())
        return
    with load_custom_functions(recipe.folder) as function:
        extensions = []
        for index, reference in enumerate(references):
            extension = Extension(recipe, index, reference, [d.name for d in mix])
            try:
                function(reference)(extension)
            except UserError as error:
                raise extension.make_error(str(error)) from None
            extensions.append(extension)
        yield add_strategies(mix, extensions)


def add_strategies(mix: Sequence[Device], extensions: Sequence[Extension]) -> tuple[Device, ...]:
    """Return the devices with their strategies. The last device is the fallback."""

    def add(device: Device, rest: Device | None) -> Device:
        custom = tuple(s for extension in extensions for s in extension.strategies_for(device.name))
        context = replace(device.context, strategies=custom, fallback=rest)
        return replace(device, context=context)

    *offered, last = mix
    rest = add(last, None)
    return (*(add(device, rest) for device in offered), rest)
