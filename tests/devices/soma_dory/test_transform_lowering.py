"""The C of layout transforms, run on this machine, follows the definition of the layout."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
import tvm

from firmwright.devices.soma_dory.boundaries import DeviceLayout
from firmwright.devices.soma_dory.lowering import lower_transform
from firmwright.ir.layer import Array
from firmwright.ir.regions import TRANSFORM, Region
from tests.sanitizers import SANITIZERS

from .device_arrays import from_device, to_device

SHAPES = [(2, 3, 5, 7), (1, 2, 3, 16), (1, 1, 2, 33), (1, 2, 3, 12), (3, 10), (2, 2)]

PROGRAM = """
#include <stdint.h>
#include <stdio.h>

static void transform(const int8_t *restrict input, int8_t *restrict output)
{{
{body}
}}

int main(void)
{{
    static int8_t input[{read}], output[{written}];
    if (fread(input, 1, sizeof input, stdin) != sizeof input) {{
        return 1;
    }}
    transform(input, output);
    return fwrite(output, 1, sizeof output, stdout) != sizeof output;
}}
"""


def run_transform(shape: tuple[int, ...], array: Array, inward: bool, folder: Path) -> Array:
    region = Region("moved", "soma_dory", "", TRANSFORM, (), (), ("a",), ("b",), 0, False, ())
    module = tvm.IRModule({"moved": DeviceLayout().make_transform(shape, "int8", inward)})
    kernel = lower_transform(region, module).kernel
    (read,), (written,) = kernel.inputs, kernel.outputs
    assert read.elements == array.size
    text = PROGRAM.format(body=kernel.body, read=read.elements, written=written.elements)
    (folder / "main.c").write_text(text)
    command = ["gcc", "-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", *SANITIZERS, "main.c"]
    subprocess.run(command, cwd=folder, check=True)
    ran = subprocess.run([folder / "a.out"], input=array.tobytes(), capture_output=True, check=True)
    return np.frombuffer(ran.stdout, "int8")


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    "shape", [(2, 3, 5, 7), (1, 2, 3, 16), (1, 1, 2, 33), (1, 2, 3, 12), (3, 10), (2, 2)]
)
def test_transforms_in_c(shape: tuple[int, ...], tmp_path: Path) -> None:
    array = np.random.default_rng(0).integers(-128, 128, shape).astype("int8")
    inside = run_transform(shape, array, True, tmp_path)
    assert np.array_equal(inside, to_device(array).reshape(-1))
    rubbish = np.where(to_device(np.ones_like(array)) == 0, np.int8(77), to_device(array))
    assert np.array_equal(from_device(rubbish, shape), array)
    outside = run_transform(shape, rubbish, False, tmp_path)
    assert np.array_equal(outside, array.reshape(-1))
