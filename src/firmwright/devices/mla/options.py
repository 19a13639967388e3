"""Reads the options of ``mla`` in the target string, and checks them against the chip.

The operators in SiMa's tables and all rules are in ``rules.yaml``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from firmwright.devices.mla.option_table import OPTIONS
from firmwright.errors import UserError
from firmwright.targets import Context
from firmwright.targets.rules import Rule, find_violations, read_rules


@dataclass(frozen=True)
class MlaRules:
    """The operators of the MLA and their rules.

    ``operators`` has the precisions of each operator by its Relax name. ``fused`` operators are
    part of the preceding operator. ``rules`` apply to operators. ``options`` apply to the target's
    options.
    """

    operators: dict[str, tuple[str, ...]]
    fused: tuple[str, ...]
    rules: tuple[Rule, ...]
    options: tuple[Rule, ...]


@cache
def mla_rules() -> MlaRules:
    return read_rules("firmwright.devices.mla", MlaRules)


@dataclass(frozen=True)
class MlaOptions:
    """The value of every option, and the chip's ``generation``: gen1 or gen2."""

    values: Mapping[str, str]
    generation: str

    def is_on(self, name: str) -> bool:
        return self.values[name] == "1"

    @property
    def converts(self) -> bool:
        """Return whether the SDK keeps the quantization of the model."""
        return self.is_on("convert_to_sima_quantization")

    @property
    def evaluates(self) -> bool:
        """Return whether the SDK quantizes until an accuracy is reached."""
        return self.values["target_accuracy"] != "none"

    @property
    def unquantized_nodes(self) -> list[str]:
        names = (name.strip() for name in self.values["unquantized_nodes"].split(","))
        return sorted({name for name in names if name})


def read_options(context: Context) -> MlaOptions:
    """Return the options of the target string, completed with the defaults.

    Raises UserError if the platform's chip does not support an option.
    """
    values = {o.name: context.options.get(o.name, o.default) for o in OPTIONS}
    options = MlaOptions(values, str(context.platform.accelerators["mla"]["generation"]))
    facts = {**values, "generation": options.generation}
    for violation in find_violations(mla_rules().options, facts):
        raise UserError(f"target: mla: {violation.sentence}")
    return options
