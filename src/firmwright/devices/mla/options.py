"""Reads the options of ``mla`` in the target string, and checks them against the chip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from firmwright.devices.mla.option_table import OPTIONS
from firmwright.devices.mla.rules import mla_rules
from firmwright.errors import UserError, did_you_mean
from firmwright.targets import Context
from firmwright.targets.device_options import accepts, format_values
from firmwright.targets.rules import find_violations


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

    Raises UserError if an option or value is unknown, if the platform has no MLA, or if the
    platform's chip does not support an option.
    """
    table = {option.name: option for option in OPTIONS}
    for name, text in context.options.items():
        if name not in table:
            raise UserError(f"target: mla: no option '{name}'{did_you_mean(name, table)}")
        if not accepts(table[name].values, text):
            known = format_values(table[name].values)
            raise UserError(f"target: mla: {name}: expected {known}, found '{text}'")
    if "mla" not in context.platform.accelerators:
        raise UserError(
            f"target: mla: the platform '{context.platform.name}' has no MLA; use modalix or mlsoc"
        )
    values = {name: context.options.get(name, option.default) for name, option in table.items()}
    options = MlaOptions(values, str(context.platform.accelerators["mla"]["generation"]))
    facts = {**values, "generation": options.generation}
    for violation in find_violations(mla_rules().options, facts):
        raise UserError(f"target: mla: {violation.sentence}")
    return options
