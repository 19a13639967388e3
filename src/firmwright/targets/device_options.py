"""Defines a device's options, and their values: one of several texts, a number, or any text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from firmwright.errors import UserError

NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")


Value = TypeVar("Value")

SWITCH = ("0", "1")
"""The values of an option that is off or on."""


class OptionError(UserError):
    """An error in the options of a device, reported at the position of the recipe's ``target``."""


@dataclass(frozen=True)
class NumberRange:
    """Numbers from ``least`` to ``most``; None means that there is no maximum.

    The numbers are integers unless ``decimal`` is set. ``other_values`` are texts that are also
    accepted.
    """

    least: int
    most: int | None = None
    decimal: bool = False
    other_values: tuple[str, ...] = ()

    def __contains__(self, text: str) -> bool:
        if text in self.other_values:
            return True
        if not NUMBER.fullmatch(text) or ("." in text and not self.decimal):
            return False
        return self.least <= float(text) and (self.most is None or float(text) <= self.most)

    def __str__(self) -> str:
        kind = "a number" if self.decimal else "a whole number"
        end = "on" if self.most is None else f"to {self.most}"
        return " or ".join([*self.other_values, f"{kind} from {self.least} {end}"])


OptionValues = tuple[str, ...] | NumberRange
"""The values that an option accepts. An empty tuple accepts any text."""


@dataclass(frozen=True)
class Option(Generic[Value]):
    """An option of a device. The documentation shows the default and the ``meaning``."""

    name: str
    default: Value
    values: OptionValues
    meaning: str


def list_values(options: Iterable[Option[Any]]) -> Mapping[str, OptionValues]:
    """Return the values of each option, as :attr:`firmwright.targets.Target.options`."""
    return {option.name: option.values for option in options}


def format_values(values: OptionValues) -> str:
    return str(values) if isinstance(values, NumberRange) else " or ".join(values)


def accepts(values: OptionValues, text: str) -> bool:
    return values == () or text in values
