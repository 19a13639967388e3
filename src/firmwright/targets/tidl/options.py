"""The options of ``tidl`` in the target string, with what TI's sources fill in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from firmwright.errors import UserError, did_you_mean
from firmwright.targets import Context
from firmwright.targets.device_options import NumberRange, accepts, format_values
from firmwright.targets.rules import find_violations
from firmwright.targets.tidl.option_table import OPTIONS, PRESETS, Option, Value
from firmwright.targets.tidl.rules import tidl_rules

WIDE_RESULTS = "advanced_options:output_feature_16bit_names_list"
WIDE_WEIGHTS = "advanced_options:params_16bit_names_list"


@dataclass(frozen=True)
class TidlOptions:
    """What is asked of TIDL: by name the value of every option of the table, stated or not."""

    values: Mapping[str, Value]

    def number(self, name: str) -> int:
        value = self.values[name]
        assert isinstance(value, int)
        return value

    def names(self, name: str) -> tuple[str, ...]:
        value = self.values[name]
        assert isinstance(value, tuple)
        return value

    def widths(self, names: Collection[str]) -> dict[str, int]:
        """Return the bits of an element at most, in the results and weights of a layer."""
        bits = self.number("tensor_bits")
        wide = {
            fact: any(name in self.names(option) for name in names)
            for fact, option in (("result_limit", WIDE_RESULTS), ("weight_limit", WIDE_WEIGHTS))
        }
        return {"tensor_bits": bits, **{f: max(16, bits) if w else bits for f, w in wide.items()}}


def read_options(context: Context) -> TidlOptions:
    """Read the target string's options and complete them.

    Raises UserError for an option or a value that TIDL does not have, for options that do not go
    together, and for those that the platform's chip cannot follow.
    """
    table = {option.name: option for option in OPTIONS}
    stated: dict[str, Value] = {}
    for name, text in context.options.items():
        if name not in table:
            raise UserError(f"target: tidl: no option '{name}'{did_you_mean(name, table)}")
        stated[name] = parse_value(table[name], text)
    if "allow_list:layer_name" in stated and any(k.startswith("deny_list") for k in stated):
        raise UserError("target: tidl takes an allow_list or deny_lists, not both")
    chip = context.platform.accelerators["tidl"]
    rest = context.fallback.name if context.fallback else ""
    values = complete_options(stated, {**chip, "rest": rest})
    facts = {**chip, **{name.rpartition(":")[2]: to_fact(v) for name, v in values.items()}}
    for violation in find_violations(tidl_rules().options, facts):
        raise UserError(f"target: tidl: {violation.sentence}")
    return TidlOptions(values)


def complete_options(stated: Mapping[str, Value], facts: Mapping[str, Any]) -> dict[str, Value]:
    """Return the value of every option: the stated one, else the preset's, else the table's."""
    values = {option.name: option.default for option in OPTIONS}
    facts = {"tensor_bits": values["tensor_bits"], **facts, **stated}
    for defaults in PRESETS[str(stated.get("preset", values["preset"]))]:
        if all(facts[fact] in wanted for fact, wanted in defaults.where.items()):
            values.update(defaults.values)
    return {**values, **stated}


def parse_value(option: Option, text: str) -> Value:
    """Return an option's value; UserError for a text that is none."""
    if not accepts(option.values, text):
        raise UserError(
            f"target: tidl: {option.name} is {format_values(option.values)}, not '{text}'"
        )
    if isinstance(option.default, tuple):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if isinstance(option.default, str):
        return text
    decimal = isinstance(option.values, NumberRange) and option.values.decimal
    return float(text) if decimal else int(text)


def to_fact(value: Value) -> int | float | str | list[str]:
    return list(value) if isinstance(value, tuple) else value
