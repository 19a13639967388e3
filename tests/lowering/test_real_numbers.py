"""Float32 numbers become the integers of a division and a rounding, at the edges of each step."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from firmwright.lowering.kernels.quantized_tensor import OutputQuantParams, RoundFunction
from firmwright.lowering.kernels.real_numbers import find_steps
from firmwright.lowering.kernels.tables import round_half_away
from tests.lowering.test_fixed_point import compile_with_fixed_point

PROGRAM = """
#include <stdio.h>
#include "fixed_point.h"

int main(void)
{
    uint32_t numbers[4], steps[255];
    float x;

    while (fread(numbers, sizeof numbers, 1, stdin) == 1) {
        fread(steps, sizeof *steps, numbers[0], stdin);
        for (uint32_t left = numbers[1]; left > 0 && fread(&x, sizeof x, 1, stdin) == 1; --left) {
            int32_t place = fixed_float_place(x, steps[0], steps[numbers[0] - 1], numbers[2],
                                              (int32_t)numbers[3]);
            int32_t found = fixed_float_steps(x, place, steps[place]);
            fwrite(&found, sizeof found, 1, stdout);
        }
    }
    return 0;
}
"""

SCALES = [1.0, 0.5, 3.0, 1 / 255, 1 / 256, 2 / 255, 0.05, 0.1, 1e-36, 1e36]
SCALES += [float(np.nextafter(np.float32(1), np.float32(n))) for n in (0, 2)]
POINTS = {"int8": (-128, -7, 0, 127), "uint8": (0, 128, 255)}


def draw_grids() -> list[OutputQuantParams]:
    random = np.random.default_rng(1)
    scales = [*SCALES, *np.exp2(random.uniform(-20, 20, 40))]
    grids = []
    for index, scale in enumerate(np.array(scales, "float32")):
        dtype = ("int8", "uint8")[index % 2]
        limits = np.iinfo(dtype)
        point = int(random.choice(POINTS[dtype]))
        grids.append(OutputQuantParams(dtype, scale, point, int(limits.min), int(limits.max)))
    return grids


def draw_numbers(begins: npt.NDArray[np.uint32]) -> npt.NDArray[np.float32]:
    """Return numbers around every step, of both signs, some of all sizes, and special numbers."""
    near = (begins.astype("int64")[:, None] + np.arange(-2, 3)).reshape(-1)
    far = np.random.default_rng(0).integers(0, 2**31, 500)
    special = [0, 1, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000]
    positive = np.concatenate([near, far, special]).astype("uint32")
    return np.concatenate([positive, positive | np.uint32(2**31)]).view("float32")


def count_steps(
    numbers: npt.NDArray[np.float32], scale: np.float32, nearest: RoundFunction, count: int
) -> npt.NDArray[np.int64]:
    with np.errstate(all="ignore"):
        whole = np.nan_to_num(nearest(numbers / scale), nan=-np.inf)
    steps: npt.NDArray[np.int64] = np.clip(whole, -count, count).astype("int64")
    return steps


@pytest.mark.needs("gcc")
def test_steps_are_those_of_a_division_and_a_rounding(tmp_path: Path) -> None:
    compile_with_fixed_point(PROGRAM, tmp_path)
    given, expected = b"", []
    for grid in draw_grids():
        for nearest in (np.rint, round_half_away):
            steps = find_steps(grid, nearest)
            assert steps is not None
            numbers, count = draw_numbers(steps.begins), steps.begins.size
            head = [count, numbers.size, steps.multiplier, steps.exponent]
            given += np.array(head, "int64").astype("uint32").tobytes()
            given += steps.begins.tobytes() + numbers.tobytes()
            expected.append(count_steps(numbers, grid.scale, nearest, count))
    ran = subprocess.run([tmp_path / "main"], input=given, capture_output=True, check=True)
    np.testing.assert_array_equal(np.frombuffer(ran.stdout, "int32"), np.concatenate(expected))


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [("int16", 0.1), ("uint8", 1e-40), ("uint8", 1e37), ("uint8", 0.0), ("uint8", np.inf)],
)
def test_other_grids_take_float_arithmetic(dtype: str, scale: float) -> None:
    limits = np.iinfo(dtype)
    low, high = int(limits.min), int(limits.max)
    grid = OutputQuantParams(dtype, np.float32(scale), 0, low, high)
    assert find_steps(grid, np.rint) is None
