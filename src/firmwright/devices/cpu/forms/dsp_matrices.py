"""Products of two activations for Arm's DSP extension: the right's columns become halfwords.

They lie less their zero point in the order in which SXTB16 widens the left: of four rows the first
and the third, then the others. So sums start from what their column adds alone.
"""

from __future__ import annotations

from firmwright.devices.cpu.forms.dsp import MOST_STEPS, largest_divisor, scale_channels
from firmwright.devices.cpu.forms.form import Packing, Scratch
from firmwright.devices.cpu.forms.matrices import describe_product
from firmwright.ir.layer import MatrixProduct

COLUMNS = 4
"""At once: with as many words of weights their sums leave registers for the left and pointers."""


def pack_product(product: MatrixProduct) -> Packing:
    """Pack nothing but numbers: a block of columns is made when the layer runs."""
    inner, last = product.inner, product.columns - 1
    scales = {name: int(array[0]) for name, array in scale_channels(product.sums).items()}
    whole = inner // 4
    return Packing(
        {},
        {
            **describe_product(product),
            "multiplier": scales["multipliers"],
            "shift": scales["shifts"],
            **({"offset": scales["offsets"]} if "offsets" in scales else {}),
            "halves": 1 + 2 * product.sums.zero_point,
            **{f"place{i}": min(i, last) for i in range(1, COLUMNS)},
        },
        {
            "unrolled": largest_divisor(whole, MOST_STEPS) if whole else 0,
            "rest": inner % 4,
        },
        (Scratch("packed", "int32", -(-inner // 4) * 2 * COLUMNS),),
    )
