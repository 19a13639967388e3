"""Packs the positions and weights of the rows and columns of a bilinear resize."""

from __future__ import annotations

import numpy as np

from firmwright.devices.cpu.forms.form import Packing, Scratch
from firmwright.ir.byte_layers import Line, Resize
from firmwright.ir.layer import Array


def pack_resize(layer: Resize) -> Packing:
    """Pack the offsets of both neighbors and the later neighbor's weight, per row and column.

    Sums have 16 bits if the weights have few bits, and otherwise 32 bits.
    """
    line = layer.columns.length * layer.channels
    unit = layer.rows.unit * layer.columns.unit
    bits = 16 if 128 * unit + unit // 2 < 1 << 15 else 32
    return Packing(
        {
            "rows": pack_line(layer.rows, line),
            "columns": pack_line(layer.columns, layer.channels),
        },
        {
            "line": line,
            "channels": layer.channels,
            "out_height": len(layer.rows.share),
            "out_width": len(layer.columns.share),
            "row_unit": layer.rows.unit,
            "column_unit": layer.columns.unit,
        },
        {"bits": bits, "shift": unit.bit_length() - 1},
        (Scratch("sums", f"int{bits}", line),),
    )


def pack_line(line: Line, elements: int) -> Array:
    """Return both offsets and the weight of each result, (results, 3), int32.

    ``elements`` is the number of elements in a neighbor: a row or a pixel.
    """
    offsets = [[n * elements for n in neighbors] for neighbors in (line.before, line.after)]
    return np.array([*offsets, line.share], "int32").T.reshape(-1)
