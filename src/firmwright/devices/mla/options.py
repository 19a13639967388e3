"""Reads the options of ``mla`` in the target string, and checks them against the chip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from firmwright.devices.mla.option_table import OPTIONS
from firmwright.devices.mla.rules import mla_rules
from firmwright.errors import UserError
from firmwright.targets import Context
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

    Raises UserError if the platform's chip does not support an option.
    """
    values = {o.name: context.options.get(o.name, o.default) for o in OPTIONS}
    options = MlaOptions(values, str(context.platform.accelerators["mla"]["generation"]))
    facts = {**values, "generation": options.generation}
    for violation in find_violations(mla_rules().options, facts):
        raise UserError(f"target: mla: {violation.sentence}")
    return options
