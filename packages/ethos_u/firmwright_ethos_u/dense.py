"""Changes the rounding of dense layers to LiteRT's rounding.

LiteRT's kernel of FULLY_CONNECTED rounds a sum once, half up. Vela compiles the two roundings of a
convolution, and has no option for another rounding. The accelerator supports both roundings.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ethosu.vela.ethos_u55_regs import ethos_u55_regs as tables

from firmwright_ethos_u.arithmetic import NATURAL
from firmwright_ethos_u.stream import decode, read_payload, replace_commands

ROUNDING = 14
"""The lowest bit of the rounding mode in OFM_PRECISION. The rounding mode is the highest field."""

DENSE = "FullyConnected"
"""The name of FULLY_CONNECTED in Vela's database."""


def find_dense(database: Any) -> set[int]:
    """Return the offsets of the operations of dense layers in the command stream.

    `database` is the result of Vela's option `enable_db`. The database maps operations to operators
    of the file.
    """
    rows = {
        name: [dict(zip(table.header, row, strict=True)) for row in table.data]
        for name, table in database.tables.items()
    }
    sources = {row["id"] for row in rows["source"] if row["operator"] == DENSE}
    operators = {row["id"] for row in rows["optimised"] if row["source_id"] in sources}
    return {int(row["offset"]) for row in rows["queue"] if row["optimised_id"] in operators}


def round_once(payload: bytes, offsets: Collection[int]) -> bytes:
    """Return the payload with a single rounding, half up, in the operations at these offsets."""
    _, words = read_payload(payload)
    changed: list[int] = []
    copied = 0
    for operation in decode(words):
        if operation.offset in offsets:
            start, precision = operation.offset // 4, operation["OFM_PRECISION"]
            once = precision & (1 << ROUNDING) - 1 | NATURAL << ROUNDING
            changed += [*words[copied:start], set_precision(once), words[start]]
            changed.append(set_precision(precision))
            copied = start + 1
    return replace_commands(payload, changed + words[copied:])


def set_precision(value: int) -> int:
    return value << 16 | int(tables.cmd0.NPU_SET_OFM_PRECISION.value)
