"""Checks the results of plug-in devices.

A check returns an error text, or '' for a valid result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from math import prod

import numpy as np
import tvm
from tvm import relax

from firmwright.ir.kernels import C_TYPES, Kernel, LoweredRegion, Parameter
from firmwright.ir.operators import short_name
from firmwright.ir.records import find_wrong_field
from firmwright.ir.regions import Change, Region, RuleViolation, Suggestion
from firmwright.ir.relax import main_bindings, read_variables
from firmwright.targets.device_assignment import find_cycle
from firmwright.targets.placement import Composite, Placement

ALIGNMENTS = (0, 1, 2, 4, 8, 16)
"""The alignments in bytes that a kernel may request for its constants."""


def check_placement(module: tvm.IRModule, placement: Placement) -> str:
    """Return the error in the composites or the violations of the network ``main``."""
    bindings = {b.var: b for b in main_bindings(module)}
    owners: dict[relax.Var, int] = {}
    if not isinstance(placement.composites, tuple | list):
        return f"the composites are a {kind_of(placement.composites)}; expected a tuple"
    for number, composite in enumerate(placement.composites):
        if not isinstance(composite, Composite):
            return f"a composite is a {kind_of(composite)}; expected a Composite"
        if wrong := check_texts(composite):
            return wrong
        if not composite.variables:
            return f"the composite '{composite.kind}' has no operators"
        for variable in composite.variables:
            if variable not in bindings:
                return f"the composite '{composite.kind}' has {describe(variable)}"
            if variable in owners:
                return (
                    f"the composite '{composite.kind}' has '{variable.name}' of another composite"
                )
            owners[variable] = number
    return check_objections(bindings, placement.violations) or describe_cycle(
        bindings, owners, placement.composites
    )


def check_texts(composite: Composite) -> str:
    for field, value in (("kind", composite.kind), ("reason", composite.reason)):
        if not isinstance(value, str):
            return f"a composite's {field} is {value!r}; expected a text"
    if not isinstance(composite.variables, tuple | list):
        return (
            f"the variables of the composite '{composite.kind}' are a "
            f"{kind_of(composite.variables)}; expected a tuple"
        )
    return ""


def describe(variable: object) -> str:
    if isinstance(variable, relax.Var):
        return f"the variable '{variable.name}', which no operator of the network is bound to"
    return f"a {kind_of(variable)}; expected variables that operators are bound to"


def check_objections(
    bindings: Mapping[relax.Var, relax.VarBinding], objections: Mapping[relax.Var, object]
) -> str:
    if not isinstance(objections, Mapping):
        return f"the violations are a {kind_of(objections)}; expected a dictionary"
    for variable, violations in objections.items():
        if variable not in bindings:
            return f"the violations have {describe(variable)}"
        problem = f"are a {kind_of(violations)}"
        if isinstance(violations, tuple | list):
            wrong = [o for o in violations if not isinstance(o, RuleViolation)]
            mistyped = [text for o in violations if (text := find_wrong_field(o, RuleViolation))]
            if not wrong and mistyped:
                return f"a violation of '{variable.name}': {mistyped[0]}"
            if not wrong:
                continue
            problem = f"have a {kind_of(wrong[0])}"
        return f"the violations of '{variable.name}' {problem}; expected a tuple of RuleViolations"
    return ""


def describe_cycle(
    bindings: Mapping[relax.Var, relax.VarBinding],
    owners: Mapping[relax.Var, int],
    composites: Sequence[Composite],
) -> str:
    """Return the error if a composite and an operator wait for each other."""
    cycle = find_cycle([*bindings.values()], owners)
    if not cycle:
        return ""
    first, reader = min(
        (owner, after) for owner, after in pairwise(cycle) if isinstance(owner, int)
    )
    between = next(
        b
        for v, b in bindings.items()
        if owners.get(v, v) == reader
        and any(owners.get(read) == first for read in read_variables(b.value))
    )
    return (
        f"the composite '{composites[first].kind}' closes a cycle: {short_name(between.value)} "
        f"('{between.var.name}') reads one of its results, and another of its operators waits for "
        "this result; remove one of these operators"
    )


def check_lowered(region: Region, module: tvm.IRModule, lowered: LoweredRegion) -> str:
    """Return the error in a region's kernel or in the arrays that it reads."""
    kernel = lowered.kernel
    if not isinstance(kernel, Kernel):
        return f"the kernel is a {kind_of(kernel)}; expected a Kernel"
    if wrong := find_wrong_field(kernel, Kernel):
        return f"the kernel's {wrong}"
    if kernel.region != region.name:
        return f"the kernel is of '{kernel.region}'; expected '{region.name}'"
    if mistake := check_arrays(lowered.weights):
        return mistake
    function = module[region.name]
    given = [describe_type(parameter.ty) for parameter in function.params]
    inputs = dict(zip(region.inputs, given, strict=True))
    outputs = dict(zip(region.outputs, map(describe_type, function.ret_ty.fields), strict=True))
    weights = {n: (str(a.dtype), int(a.size)) for n, a in lowered.weights.items()}
    missing = [name for name in outputs if name not in {p.tensor for p in kernel.outputs}]
    if missing:
        return f"the kernel has no output for the tensor '{missing[0]}'"
    return (
        check_parameters("input", kernel.inputs, inputs)
        or check_parameters("output", kernel.outputs, outputs)
        or check_parameters("weight", kernel.weights, weights)
        or check_scratch(kernel)
        or check_cycles(kernel)
    )


def check_arrays(weights: Mapping[str, object]) -> str:
    if not isinstance(weights, Mapping):
        return f"the weights are a {kind_of(weights)}; expected a dictionary"
    for name, array in weights.items():
        if not isinstance(array, np.ndarray):
            return f"the weights '{name}' are a {kind_of(array)}; expected a numpy array"
        if str(array.dtype) not in C_TYPES:
            known = ", ".join(C_TYPES)
            return f"the weights '{name}' are {array.dtype}; expected one of {known}"
    return ""


def describe_type(kind: relax.TensorType) -> tuple[str, int]:
    return str(kind.dtype), prod(int(length) for length in kind.shape)


def check_parameters(
    role: str, parameters: Sequence[Parameter], tensors: Mapping[str, tuple[str, int]]
) -> str:
    for parameter in parameters:
        if parameter.tensor not in tensors:
            known = ", ".join(map(repr, tensors)) or "none"
            return f"the {role} '{parameter.name}' names '{parameter.tensor}'; there is {known}"
        dtype, count = tensors[parameter.tensor]
        same_type = C_TYPES.get(parameter.dtype) == C_TYPES[dtype]
        if not same_type or parameter.elements != count:
            return (
                f"the {role} '{parameter.name}' has {parameter.elements:,} {parameter.dtype}; "
                f"the tensor '{parameter.tensor}' has {count:,} {dtype}"
            )
        if parameter.alignment not in ALIGNMENTS:
            return (
                f"the {role} '{parameter.name}' has the alignment {parameter.alignment}; expected "
                f"one of {', '.join(map(str, ALIGNMENTS))}"
            )
    return ""


def check_scratch(kernel: Kernel) -> str:
    for parameter in kernel.scratch:
        if parameter.dtype not in C_TYPES or parameter.elements < 1:
            known = ", ".join(C_TYPES)
            return (
                f"the scratch '{parameter.name}' has {parameter.elements:,} {parameter.dtype}; "
                f"expected one or more of {known}"
            )
    return ""


def check_cycles(kernel: Kernel) -> str:
    if kernel.cycles is None:
        return ""
    negative = [
        f"{name} {number:,}" for name, number in asdict(kernel.cycles).items() if number < 0
    ]
    return f"the kernel's cycles are negative: {', '.join(negative)}" if negative else ""


def check_estimate(cycles: int | None) -> str:
    if cycles is None or 0 <= cycles < 1 << 63:
        return ""
    if cycles < 0:
        return f"{max(cycles, -(1 << 63)):,} cycles are negative; expected 0 or more"
    return "the cycles need more than 63 bits; expected fewer"


def check_suggestions(suggestions: Sequence[object]) -> str:
    for suggestion in suggestions:
        if not isinstance(suggestion, Suggestion):
            return f"a suggestion is a {kind_of(suggestion)}; expected a Suggestion"
        if wrong := find_wrong_field(suggestion, Suggestion):
            return f"a suggestion's {wrong}"
        if wrong := check_estimate(suggestion.cycles):
            return f"'{suggestion.change}': {wrong}"
    return ""


def check_changes(changes: object) -> str:
    """Return the error in the changes, or the rule, that ``complete_changes`` returned."""
    if isinstance(changes, RuleViolation):
        wrong = find_wrong_field(changes, RuleViolation)
        return f"the rule's {wrong}" if wrong else ""
    assert isinstance(changes, tuple | list)
    for change in changes:
        if not isinstance(change, Change):
            return f"a change is a {kind_of(change)}; expected a Change"
        if wrong := find_wrong_field(change, Change):
            return f"a change's {wrong}"
    return ""


def check_layout(layout: object) -> str:
    members = ("allows_transforms", "storage", "convert_function", "make_transform")
    missing = [member for member in members if layout is not None and not hasattr(layout, member)]
    if missing:
        return f"returned a {kind_of(layout)}, which has no `{missing[0]}`; expected a Layout"
    return ""


def kind_of(value: object) -> str:
    return type(value).__name__


def check_texts_alone(result: Sequence[object], *_: object) -> str:
    texts = all(isinstance(text, str) for text in result)
    return "" if texts else f"returned {result!r}; expected a list of strings"


def accept(*_: object) -> str:
    return ""


CHECKS: Mapping[str, tuple[tuple[type, ...], Callable[..., str]]] = {
    "prepare": ((tvm.IRModule,), accept),
    "place": ((Placement,), lambda result, module, _: check_placement(module, result)),
    "layout": ((object,), lambda result, _: check_layout(result)),
    "lower": (
        (LoweredRegion,),
        lambda result, region, module, _: check_lowered(region, module, result),
    ),
    "list_variants": ((tuple, list), check_texts_alone),
    "describe_kernel": ((str,), accept),
    "estimate_cycles": ((int, type(None)), lambda result, *_: check_estimate(result)),
    "complete_changes": ((tuple, list, RuleViolation), lambda result, *_: check_changes(result)),
    "suggest": ((tuple, list), lambda result, *_: check_suggestions(result)),
    "list_idle_options": ((tuple, list), check_texts_alone),
    "extend_project": ((type(None),), accept),
}
"""The types of each method's results, and the check of a result and the method's arguments."""
