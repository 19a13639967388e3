"""Reads the options of ``tidl`` in the target string, and adds the defaults of TI's sources.

The operators of TIDL and all rules are in ``rules.yaml``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from firmwright.devices.tidl.option_table import (
    CALIBRATION,
    CALIBRATION_KEYS,
    CHIP_DEFAULTS,
    OPTIONS,
    PRESETS,
    Value,
)
from firmwright.targets import Context
from firmwright.targets.device_options import NumberRange, Option, OptionError
from firmwright.targets.rules import Rule, find_violations, read_rules

SCALE_TYPE = "advanced_options:quantization_scale_type"


@dataclass(frozen=True)
class TidlRules:
    """The operators of TIDL, by their Relax names, and the rules for them.

    ``options`` has the rules for the target's options.
    """

    operators: tuple[str, ...]
    rules: tuple[Rule, ...]
    options: tuple[Rule, ...]


@cache
def tidl_rules() -> TidlRules:
    return read_rules("firmwright.devices.tidl", TidlRules)


@dataclass(frozen=True)
class TidlOptions:
    """The value of every option in the table, by name. ``stated`` has the user's options."""

    values: Mapping[str, Value]
    stated: Collection[str] = ()

    def number(self, name: str) -> int:
        value = self.values[name]
        assert isinstance(value, int)
        return value

    def names(self, name: str) -> tuple[str, ...]:
        value = self.values[name]
        assert isinstance(value, tuple)
        return value


def read_options(context: Context) -> TidlOptions:
    """Return the target string's options, completed with the defaults.

    Raises OptionError if options exclude each other, or if the platform's chip does not support an
    option.
    """
    table = {option.name: option for option in OPTIONS}
    stated = {name: parse_value(table[name], text) for name, text in context.options.items()}
    if "allow_list:layer_name" in stated and any(k.startswith("deny_list") for k in stated):
        raise OptionError(
            "target: tidl accepts an allow_list or deny_lists, not both; remove one option"
        )
    chip = context.platform.accelerators["tidl"]
    rest = context.fallback.name if context.fallback else ""
    values = complete_options(stated, {**chip, "rest": rest})
    facts = {**chip, **{name.rpartition(":")[2]: to_fact(v) for name, v in values.items()}}
    for violation in find_violations(tidl_rules().options, facts):
        raise OptionError(f"target: tidl: {violation.sentence}")
    options = TidlOptions(values, tuple(stated))
    if values["accuracy_level"] != 9:
        refuse_stated(
            options,
            CALIBRATION_KEYS,
            "has an effect only with accuracy_level=9; remove the option, or set accuracy_level=9",
        )
    if values["tensor_bits"] == 32:
        refuse_stated(
            options,
            CALIBRATION,
            "has no effect with tensor_bits=32, which keeps floats; remove one of the options",
        )
    return options


def refuse_stated(options: TidlOptions, names: Collection[str], why: str) -> None:
    """Raise OptionError for the first option of ``names`` in the recipe."""
    for name in options.stated:
        if name in names:
            raise OptionError(f"target: tidl: {name} {why}")


def refuse_calibration(options: TidlOptions) -> None:
    """Raise OptionError for an option on quantization, because the network is already quantized."""
    workaround = "compile the float network, which TIDL quantizes"
    why = f"is for quantization, and the network is already quantized; {workaround}"
    refuse_stated(options, CALIBRATION, why)
    bits = options.number("tensor_bits")
    if bits != 8:
        raise OptionError(
            f"target: tidl: tensor_bits is {bits}; if a network is already quantized, TIDL "
            f"supports only 8; {workaround}"
        )


def complete_options(stated: Mapping[str, Value], facts: Mapping[str, Any]) -> dict[str, Value]:
    """Return the value of every option: the user's value, the preset's value, or the default."""
    values = {option.name: option.default for option in OPTIONS}
    facts = {"tensor_bits": values["tensor_bits"], **facts, **stated}
    preset = str(stated.get("preset", values["preset"]))
    for defaults in (*CHIP_DEFAULTS, *PRESETS[preset]):
        if all(facts[fact] in wanted for fact, wanted in defaults.where.items()):
            values.update(defaults.values)
    return {**values, **stated}


def parse_value(option: Option[Value], text: str) -> Value:
    """Return an option's value. The recipe's check has accepted the text."""
    if isinstance(option.default, tuple):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if isinstance(option.default, str):
        return text
    decimal = isinstance(option.values, NumberRange) and option.values.decimal
    return float(text) if decimal else int(text)


def to_fact(value: Value) -> int | float | str | list[str]:
    return list(value) if isinstance(value, tuple) else value
