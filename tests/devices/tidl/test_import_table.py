"""Every key in the configurations of TI's import tool, compared with TI's sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from firmwright.devices.tidl.artifacts import write_artifacts

from .networks import float_convolution, quantized_convolution
from .test_artifacts import partitioned

TABLE: dict[str, dict[str, str]] = yaml.safe_load(
    Path(__file__).with_name("import_table.yaml").read_text("utf-8")
)
CHIPS = {"8": ("am62a", "j721s2", "j721e"), "16": ("am67a", "j721e"), "32": ("j784s4",)}
REGIONS = [
    *((f"float {bits}", chip) for bits, chips in CHIPS.items() for chip in chips),
    *(("qdq", chip) for chip in ("am62a", "am67a", "j721s2", "j784s4", "j721e")),
]


@pytest.mark.parametrize(("kind", "chip"), REGIONS)
def test_every_key_has_the_value_that_is_demanded(kind: str, chip: str, tmp_path: Path) -> None:
    module: Any = float_convolution()
    if kind == "qdq":
        module = quantized_convolution("int8", "int8")
    bits = "8" if kind == "qdq" else kind.removeprefix("float ")
    write_artifacts(partitioned(module, f"tidl -tensor_bits={bits}, c", chip), tmp_path)
    lines = (tmp_path / "tidl_import_subgraph0.txt").read_text("utf-8").splitlines()
    own = f"{kind} on J721E" if chip == "j721e" else kind
    demanded = {key: row.get(own) or row.get(kind) or row["all"] for key, row in TABLE.items()}
    assert dict(line.split(" = ") for line in lines) == demanded
