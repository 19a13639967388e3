"""The precision file is read as it was written, with any names."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmwright.errors import DiagnosticError
from firmwright.recipe.precision import LayerPrecision, Precision, read_precision, write_precision

LAYERS = {"no": LayerPrecision("int4", 7, 1e-5), "a: 'b\"\\": LayerPrecision("float32", 0, 0.0)}
FOUND = Precision("1e40" * 16, 4096, LAYERS, 8192, 0.5, 0.125)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "net.precision"
    for found in (FOUND, Precision("0" * 64, 1, {}, accuracy=1.0, loss=-0.5)):
        assert write_precision(path, found)
        assert read_precision(path)[1] == found
        assert not write_precision(path, found)


def test_wrong_values_are_reported_with_their_places(tmp_path: Path) -> None:
    path = tmp_path / "net.precision"
    path.write_text("version: 1\nnetwork: x\nlayers:\n  a: {weights: int9, bytes: 1, error: 0}\n")
    with pytest.raises(DiagnosticError) as caught:
        read_precision(path)
    first, second, third = str(caught.value).splitlines()
    assert first.startswith(f"{path}:1:1: the key 'firmware' is missing")
    assert second.startswith(f"{path}:2:10: network: ")
    assert third.startswith(f"{path}:4:16: layers.a.weights: ")
