"""Functions of one byte have a form, and equal LiteRT's reference kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from firmwright.devices.cpu.forms.byte_functions import MANY_REPEATS
from tests.networks.firmware import assert_exact, lowered
from tests.networks.tflite_models import ModelBuilder, Quantization
from tests.networks.tflite_operators import random_grid

OPTIONS = {"SUB": "SubOptions", "ADD": "AddOptions", "MUL": "MulOptions"}


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("first", [True, False], ids=["constant first", "constant last"])
def test_operators_with_a_constant_are_lines_and_exact(first: bool, tmp_path: Path) -> None:
    random = np.random.default_rng(int(first))
    builder = ModelBuilder()
    for kind, options in OPTIONS.items():
        for _ in range(5):
            grids = [random_grid(random, "int8") for _ in range(3)]
            source = builder.input((1, 200), "int8", grids[0])
            constant = builder.constant(random.integers(-128, 128, (1, 1), "int8"), grids[1])
            output = builder.output((1, 200), "int8", grids[2])
            read = [constant, source] if first else [source, constant]
            builder.operator(kind, read, [output], options, version=1)
    data = builder.build()
    notes = [kernel.note or "" for kernel in lowered(data).kernels.kernels]
    assert sum("Form line" in note for note in notes) >= 3  # other scales have loops
    assert_exact(data, tmp_path)


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("count", [MANY_REPEATS, MANY_REPEATS - 1])
def test_many_logistic_functions_share_polynomials(count: int, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    builder = ModelBuilder()
    for kind, scale, point in (("LOGISTIC", 1 / 256, -128), ("TANH", 1 / 128, 0)):
        for _ in range(count):
            grid = Quantization(float(np.float32(random.uniform(0.003, 0.1))), -9)
            source = builder.input((1, 256), "int8", grid)
            result = builder.output((1, 256), "int8", Quantization(scale, point))
            builder.operator(kind, [source], [result])
    data = builder.build()
    kernels = lowered(data).kernels.kernels
    curves = [k for k in kernels if "Form sigmoid" in (k.note or "")]
    assert (len(curves) > count) == (count == MANY_REPEATS)
    assert len({p.tensor for k in curves for p in k.weights}) <= 1
    inputs = [
        {builder.graph.tensors[i].name: np.arange(-128, 128, dtype="int8")[None]
         for i in builder.graph.inputs}
    ]  # fmt: skip
    assert_exact(data, tmp_path, inputs)
