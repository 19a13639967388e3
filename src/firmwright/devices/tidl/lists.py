"""The user's lists of layers: what stays behind, and whether the network has what they name."""

from __future__ import annotations

from collections.abc import Sequence

from firmwright.devices.tidl.option_table import OPTIONS
from firmwright.devices.tidl.options import TidlOptions
from firmwright.devices.tidl.rules import tidl_rules
from firmwright.errors import did_you_mean
from firmwright.ir.nodes import VarBinding
from firmwright.ir.operators import is_same_kind
from firmwright.ir.regions import Remedy, RuleViolation
from firmwright.ir.tensors import is_source_name
from firmwright.partition.grouping import Group
from firmwright.partition.layers import computing_operators, names_of
from firmwright.targets.device_options import OptionError
from firmwright.targets.fact_context import kind_of

DENIED_TYPES = "deny_list:layer_type"
DENIED_NAMES = "deny_list:layer_name"
ALLOWED_NAMES = "allow_list:layer_name"


def check_layer_name(options: TidlOptions, names: set[str]) -> RuleViolation | None:
    """Return what the user's lists say against a layer that goes by these names."""
    denied = [name for name in options.names(DENIED_NAMES) if name in names]
    if denied:
        return explain_denial(DENIED_NAMES, denied[0])
    if options.names(ALLOWED_NAMES) and names.isdisjoint(options.names(ALLOWED_NAMES)):
        remedy = Remedy(f"target: tidl: name it in {ALLOWED_NAMES}")
        sentence = f"the target's {ALLOWED_NAMES} does not name it"
        return RuleViolation(ALLOWED_NAMES, sentence, remedy=remedy)
    return None


def check_layer_type(options: TidlOptions, kind: str) -> RuleViolation | None:
    denied = [entry for entry in options.names(DENIED_TYPES) if matches_kind(entry, kind)]
    return explain_denial(DENIED_TYPES, denied[0]) if denied else None


def matches_kind(entry: str, kind: str) -> bool:
    """Return whether a type of a list is this kind: by the name here, or by ONNX's or TFLite's."""
    known = entry in tidl_rules().operators
    return entry == kind or (not known and is_same_kind(entry, kind.removeprefix("depthwise_")))


def explain_denial(rule: str, entry: str) -> RuleViolation:
    remedy = Remedy(f"target: tidl: take '{entry}' off {rule}")
    return RuleViolation(rule, f"the target's {rule} names '{entry}'", remedy=remedy)


def check_lists(
    options: TidlOptions, bindings: Sequence[VarBinding], groups: Sequence[Group]
) -> None:
    """Raise OptionError for a list's entry that nothing in the network is called."""
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
                raise OptionError(
                    f"target: tidl: {option.name}: the network has no '{entry}'{hint}"
                )
