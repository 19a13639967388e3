"""Packs numbers for products of two activations. The C packs the columns when the layer runs.

If za is the zero point of the left operand and zb is the zero point of the right operand, a sum is

    sum(a b) - zb sum(a) - za sum(b) + inner za zb

Therefore a sum starts from the terms of its row and its column, and the products use the stored
integers. The C packs the integers of the right operand as signed bytes. If they are unsigned, 128
is subtracted from the integers and from zb.
"""

from __future__ import annotations

import numpy as np

from firmwright.devices.cpu.forms.form import Condition, Packing, Scratch
from firmwright.devices.cpu.forms.plain import CHANNELS, LARGE_BLOCK, PIXELS, UNROLLED
from firmwright.devices.cpu.forms.requantize import INTEGERS, make_requantization
from firmwright.ir.layer import MatrixProduct

SCALED = Condition(INTEGERS.sentence, lambda product: INTEGERS.holds(product.sums))


def describe_product(product: MatrixProduct) -> dict[str, int]:
    """Return the record members that the C of every form reads.

    A row of the left operand is a run.
    """
    sums, numbers = product.sums, make_requantization(product.sums)
    left, right = product.left.steps, product.right.steps
    record = {
        "stacks": product.stacks,
        "rows": product.rows,
        "run": product.inner,
        "columns": product.columns,
        "words": left[1],
        "left_stack": left[0],
        "right_stack": right[0],
        "down": right[1],
        "across": right[2],
        "left_zero": product.left.zero_point,
        "right_zero": product.right.zero_point,
        "multiplier": int(numbers.multipliers[0]),
        "shift": int(numbers.shifts[0]),
    }
    return {**record, "offset": int(numbers.offsets[0])} if sums.scaling.has_offsets else record


def lower_by(product: MatrixProduct) -> int:
    """Return the number to subtract from the right operand, so that its elements become signed
    bytes."""
    return int(np.iinfo(product.right.dtype).min - np.iinfo("int8").min)


def pack_blocks(product: MatrixProduct) -> Packing:
    """Pack the numbers of small blocks, for cores with few registers."""
    return pack_bytes(product, PIXELS, CHANNELS, kept=False)


def pack_large_blocks(product: MatrixProduct) -> Packing:
    """Pack the numbers of large blocks, for cores with 32 registers.

    The C prevents compilers from reordering products.
    """
    return pack_bytes(product, LARGE_BLOCK, LARGE_BLOCK, kept=True)


def pack_bytes(product: MatrixProduct, rows: int, columns: int, kept: bool) -> Packing:
    """Pack the numbers of blocks of ``rows`` by ``columns``.

    The C copies a block of the right operand as signed bytes.
    """
    sums, lowered = product.sums, lower_by(product)
    rows, columns = min(rows, product.rows), min(columns, product.columns)
    return Packing(
        {},
        {
            **describe_product(product),
            "right_zero": product.right.zero_point - lowered,
            "halves": 1 + 2 * (sums.zero_point - sums.low),
        },
        {
            "pixels": rows,
            "channels": columns,
            "kept": kept,
            "lowered": lowered,
            "unrolled": next(n for n in UNROLLED if product.inner % n == 0),
        },
        (
            Scratch("starts", "int32", product.rows),
            Scratch("packed", "int8", columns * product.inner),
        ),
    )


def pack_pairs(product: MatrixProduct) -> Packing:
    """Pack numbers for AVX2, which adds pairs of taps of 16 columns."""
    return pack_vectors(product, columns=16, taps=2)


def pack_lanes(product: MatrixProduct) -> Packing:
    """Pack numbers for NEON, which uses eight successive taps of a row for eight columns."""
    return pack_vectors(product, columns=8, taps=8)


def pack_vectors(product: MatrixProduct, columns: int, taps: int) -> Packing:
    """Pack numbers for vectors of columns. The length of a row is a multiple of ``taps``.

    The C subtracts the zero point of the right operand when it packs the columns, because 16-bit
    elements can hold the differences.
    """
    sums = product.sums
    rows, row = min(LARGE_BLOCK, product.rows), -(-product.inner // taps) * taps
    return Packing(
        {},
        {
            **describe_product(product),
            "row": row,
            "packed": row * columns,
            "halves": 1 + 2 * (sums.zero_point - sums.low),
        },
        {"pixels": rows},
        (Scratch("packed", "int16", row * columns), Scratch("wide", "int16", row * rows)),
    )
