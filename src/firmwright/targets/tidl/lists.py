"""The user's lists of layers: what stays behind, and what has 16 bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvm import relax

from firmwright.errors import UserError, did_you_mean
from firmwright.ir.operators import is_same_kind
from firmwright.ir.regions import RuleViolation
from firmwright.ir.relax import dtype_of
from firmwright.ir.tensors import is_source_name
from firmwright.partition.grouping import Group
from firmwright.partition.layers import computing_operators, names_of
from firmwright.targets.facts import bits_of, kind_of, weights_dtype
from firmwright.targets.tidl.option_table import OPTIONS
from firmwright.targets.tidl.options import WIDE_RESULTS, WIDE_WEIGHTS, TidlOptions
from firmwright.targets.tidl.rules import tidl_rules

DENIED_TYPES = "deny_list:layer_type"
DENIED_NAMES = "deny_list:layer_name"
ALLOWED_NAMES = "allow_list:layer_name"


def check_layer_name(options: TidlOptions, names: set[str]) -> RuleViolation | None:
    """Return what the user's lists say against a layer that goes by these names."""
    denied = [name for name in options.names(DENIED_NAMES) if name in names]
    if denied:
        return explain_denial(DENIED_NAMES, denied[0])
    if options.names(ALLOWED_NAMES) and names.isdisjoint(options.names(ALLOWED_NAMES)):
        return RuleViolation(ALLOWED_NAMES, f"the target's {ALLOWED_NAMES} does not name it")
    return None


def check_layer_type(options: TidlOptions, kind: str) -> RuleViolation | None:
    denied = [entry for entry in options.names(DENIED_TYPES) if matches_kind(entry, kind)]
    return explain_denial(DENIED_TYPES, denied[0]) if denied else None


def matches_kind(entry: str, kind: str) -> bool:
    """Tell whether a type of a list is this kind: by the name here, or by ONNX's or TFLite's."""
    known = entry in tidl_rules().operators
    return entry == kind or (not known and is_same_kind(entry, kind.removeprefix("depthwise_")))


def explain_denial(rule: str, entry: str) -> RuleViolation:
    return RuleViolation(rule, f"the target's {rule} names '{entry}'")


def check_lists(
    options: TidlOptions, bindings: Sequence[relax.VarBinding], groups: Sequence[Group]
) -> None:
    """Raise UserError for a list's entry that nothing in the network is called.

    Also for a layer that is to have 16 bits and has not: how the network is quantized is said in
    one place, which these lists have to agree with.
    """
    types, names = {kind_of(b.value) for b in bindings}, names_of(bindings)
    layers = names_of([b for group in groups for b in computing_operators(group)])
    for option in OPTIONS:
        if not isinstance(option.default, tuple):
            continue
        for entry in options.names(option.name):
            by_type = option.name == DENIED_TYPES
            known = any(matches_kind(entry, kind) for kind in types) if by_type else entry in names
            if not known:
                telling = types if by_type else filter(is_source_name, layers)
                hint = did_you_mean(entry, telling)
                raise UserError(f"target: tidl: {option.name}: the network has no '{entry}'{hint}")
    values = {b.var: b.value for b in bindings}
    for group in groups:
        check_widths(options, group, values)


def check_widths(
    options: TidlOptions, group: Group, values: Mapping[relax.Var, relax.Expr]
) -> None:
    """Raise UserError where a layer that is listed to have 16 bits has not, or has no weights."""
    names = names_of(group.bindings)
    weights = [weights_dtype(b.value, values) for b in computing_operators(group)]
    for option, what, key, dtypes in (
        (WIDE_RESULTS, "results", "activations", [dtype_of(group.root)]),
        (WIDE_WEIGHTS, "weights", "weights", [dtype for dtype in weights if dtype]),
    ):
        for entry in sorted(names.intersection(options.names(option))):
            if not dtypes:
                raise UserError(f"target: tidl: {option}: '{entry}' has no {what}")
            if all(bits_of(dtype) != 16 for dtype in dtypes):
                raise UserError(
                    f"target: tidl: {option}: the {what} of '{entry}' are {dtypes[0]} in the "
                    f"network; `quantize: {{layers: [{{match: {entry}, {key}: int16}}]}}` makes "
                    "them so wide"
                )
