"""RFFT2D of one row, and the operators that read its complex numbers, are close to LiteRT's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from firmwright.errors import UserError
from firmwright.models.tflite import importer as tflite
from tests.networks.firmware import SANITIZED, random_samples, run_generated
from tests.networks.tflite_models import ModelBuilder
from tests.networks.tflite_spectra import add_transform


@pytest.mark.needs("gcc")
def test_spectra_of_rows(tmp_path: Path) -> None:
    """Rows are shorter than the length, longer, and equal to it."""
    builder = ModelBuilder()
    for shape, length in (((2, 1, 50), 64), ((1, 3, 1, 9), 8), ((1, 32), 32)):
        spectrum = add_transform(builder, shape, (1, length))
        flat = (int(np.prod(shape[:-2])), length // 2 + 1)
        numbers = builder.tensor(flat, "complex64", None)
        sizes = builder.constant(np.array(flat, "int32"))
        builder.operator("RESHAPE", [spectrum, sizes], [numbers], version=1)
        for kind in ("COMPLEX_ABS", "REAL", "IMAG"):
            builder.operator(kind, [numbers], [builder.output(flat, "float32", None)], version=1)
    data = builder.build()
    inputs = random_samples(data, 2, 0)
    found = run_generated(data, inputs, tmp_path, SANITIZED)
    for ours, theirs in zip(found, tflite.run_reference(data, inputs).outputs, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-6 * np.abs(b).max())


def test_transforms_of_two_axes_are_refused() -> None:
    builder = ModelBuilder()
    spectrum = add_transform(builder, (4, 8), (4, 8))
    builder.operator("REAL", [spectrum], [builder.output((4, 5), "float32", None)], version=1)
    with pytest.raises(UserError, match=r"RFFT2D .*transforms 4 rows of 8 values"):
        tflite.import_model(builder.build(), "model", {})


def test_other_operators_on_complex_numbers_are_refused() -> None:
    builder = ModelBuilder()
    spectrum = add_transform(builder, (1, 8), (1, 8))
    order = builder.constant(np.array([1, 0], "int32"))
    turned = builder.tensor((5, 1), "complex64", None)
    builder.operator("TRANSPOSE", [spectrum, order], [turned], version=1)
    builder.operator("REAL", [turned], [builder.output((5, 1), "float32", None)], version=1)
    with pytest.raises(UserError, match=r"TRANSPOSE .*computes with complex numbers"):
        tflite.import_model(builder.build(), "model", {})
