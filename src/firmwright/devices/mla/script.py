"""The Python script that drives SiMa's Model SDK."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from firmwright.codegen.templates import new_environment, read_template
from firmwright.devices.mla.settings import AfeSettings
from firmwright.ir.tensors import Tensor

TEMPLATE = "mla/sdk/compile.py.j2"
TITLES = {"gen1": "MLSoC", "gen2": "Modalix"}


def write_script(
    name: str, model: str, inputs: Sequence[Tensor], calibration: str, settings: AfeSettings
) -> str:
    """Return the script.

    ``model`` and ``calibration`` are files next to it; without samples the latter is ''.
    """
    cache = "l2_caching_mode"
    compiled = [a for a in settings.compile if a.name != cache or a.value != a.default]
    used = " ".join([*(v for _, v in settings.quantization), *(a.value for a in compiled)])
    environment = new_environment(read_template)
    environment.filters["literal"] = format_literal
    return environment.get_template(TEMPLATE).render(
        name=name,
        title=TITLES[settings.chip],
        model=model,
        inputs=inputs,
        calibration=calibration,
        settings=settings,
        compiled=compiled,
        used=used,
        defines=[n for n in ("BiasCorrectionType", "RequantizationMode") if f"{n}." in used],
    )


def format_literal(value: Any) -> str:
    """Write a value as Python has it, text in double quotes."""
    return json.dumps(value) if isinstance(value, str) else repr(value)
