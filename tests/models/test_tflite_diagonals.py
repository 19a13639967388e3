"""Operators on diagonals, and RIGHT_SHIFT by any number: the C equals LiteRT bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.networks.firmware import assert_exact
from tests.networks.tflite_models import ModelBuilder

pytestmark = pytest.mark.needs("gcc")


def test_diagonals_and_shifts(tmp_path: Path) -> None:
    """The numbers of bits include negative ones, and the bits of the type."""
    builder, random, sample = ModelBuilder(), np.random.default_rng(6), {}

    def add(kind: str, options: str, dtype: str, result: tuple[int, ...], *shapes: tuple[int, ...],
            limit: int = 128) -> None:  # fmt: skip
        given = [builder.input(shape, dtype, None) for shape in shapes]
        for index, shape in zip(given, shapes, strict=True):
            sample[f"t{index}"] = random.integers(-limit, limit, shape).astype(dtype)
        output = builder.output(result, dtype, None)
        builder.operator(kind, given, [output], options, version=1)

    add("MATRIX_DIAG", "MatrixDiagOptions", "float32", (2, 4, 4), (2, 4))
    add("MATRIX_DIAG", "MatrixDiagOptions", "int32", (3, 3), (3,))
    for rows, columns in ((4, 4), (3, 5), (5, 3)):
        shape = (2, rows, columns)
        add(
            "MATRIX_SET_DIAG", "MatrixSetDiagOptions", "float32", shape, shape, (2, 3 + (rows == 4))
        )
    for dtype, limit in (("int8", 128), ("int16", 40), ("int32", 40)):
        row = (2, 60)
        add("RIGHT_SHIFT", "RightShiftOptions", dtype, row, row, row, limit=limit)
    assert_exact(builder.build(), tmp_path, [sample])
