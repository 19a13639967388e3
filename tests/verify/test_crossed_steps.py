"""Reports of a step that rounding crosses in a quantization in the run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from firmwright.ir.regions import Partition, Region
from firmwright.ir.tensors import Tensor
from firmwright.stages.first_layer import WRONG, describe_difference
from firmwright.verify.crossed_steps import find_crossed_step
from firmwright.verify.layer_differences import ComparedResult, LayerDifference

REGION = Region(
    name="region_1_quantize", device="c", reason="", anchor="quantize", sources=(),
    operators=("quantize",), inputs=("flat", "chosen"), outputs=("integers",), macs=0, view=False,
    dequantized=(),
)  # fmt: skip
VIEW = Region(
    name="region_0_reshape", device="c", reason="", anchor="reshape", sources=(),
    operators=("reshape",), inputs=("floats",), outputs=("flat",), macs=0, view=True,
    dequantized=(),
)  # fmt: skip
PARTITION = Partition(
    ("floats",), ("integers",), (Tensor("floats", (1, 1, 4), "float32"),), (VIEW, REGION)
)
FLOATS = np.array([[[-1.0, 0.5, 0.25, 1.01]]], "float32")


@pytest.mark.parametrize(("symmetric", "steps"), [(True, 127 / 1.01), (False, 255 / 2.01)])
def test_a_float_next_to_the_middle_of_two_integers_is_a_crossed_step(
    symmetric: bool, steps: float
) -> None:
    middle = np.float32(32.5 / steps)
    expected, found = FLOATS.copy(), FLOATS.copy()
    expected[0, 0, 2], found[0, 0, 2] = middle * np.float32(1 - 1e-6), middle * np.float32(1 + 1e-6)
    point = 0 if symmetric else -1
    chosen = np.array([[[1 / steps, steps, point]]], "float32")
    real = found[0] * np.float32(steps) + point
    integers = (np.trunc(real + np.copysign(0.5, real)) - point)[None]
    compared = {"floats": ComparedResult("floats", found, expected)}
    crossed = find_crossed_step(
        PARTITION, [REGION], {"integers": integers, "chosen": chosen}, compared
    )
    assert crossed is not None
    assert (crossed.count, crossed.total) == (1, 4)
    assert "1 of 4 inputs of the layer are one step" in str(crossed)


def test_a_wrong_float_is_not_rounding() -> None:
    chosen = np.array([[[1.01 / 127, 127 / 1.01, 0]]], "float32")
    wrong = FLOATS + np.array([0, 0.008, 0, 0], "float32")
    results = {"integers": np.rint(wrong * 127 / 1.01), "chosen": chosen}
    compared = {"floats": ComparedResult("floats", wrong, FLOATS)}
    assert find_crossed_step(PARTITION, [REGION], results, compared) is None


def test_a_crossed_step_does_not_hide_a_wrong_layer() -> None:
    result = ComparedResult("floats", FLOATS * 100, FLOATS)
    difference = LayerDifference(replace(REGION, sources=("dense",)), result, ())
    shown = describe_difference(difference)
    assert shown.startswith(WRONG)
    assert "'dense' (region_1_quantize on c)" in shown
    noted = describe_difference(replace(difference, note="1 of 4 inputs"))
    assert noted == f"{shown}\n  a quantization in the run may explain it: 1 of 4 inputs"
    assert "tolerance" not in noted
