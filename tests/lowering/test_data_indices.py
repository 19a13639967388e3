"""Indices from data: a read uses the nearest element, and a write out of range is omitted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import TensorProto

from tests.networks.firmware import SANITIZED, run_generated
from tests.networks.onnx_models import graph, node, value

pytestmark = pytest.mark.needs("gcc")

INT64 = TensorProto.INT64
LARGEST = np.iinfo("int64").max
HOSTILE = np.array([0, -1, 4, 5, -5, -6, 7, -11, LARGEST, -LARGEST - 1, 2**31, -(2**31)])
"""Indices of an axis of 5: in range, counted from its end, out of range by one, far outside."""

DATA = np.arange(20, dtype="float32").reshape(5, 4)
UPDATES = np.arange(100, 112, dtype="float32")
Array = npt.NDArray[Any]


def run(
    operator: str, given: dict[str, Array], shape: list[int], folder: Path, **options: Any
) -> Any:
    """Return the result of the C of one operator, run with gcc's sanitizers."""
    kinds = {"float32": TensorProto.FLOAT, "int64": INT64}
    inputs = [value(name, [*a.shape], kinds[a.dtype.name]) for name, a in given.items()]
    model = graph([node(operator, list(given), ["y"], **options)], inputs, [value("y", shape)])
    ((found,),) = run_generated(model.SerializeToString(), [given], folder, SANITIZED)
    return found


def count_from_end(indices: Array, length: int) -> Array:
    return np.where(indices < 0, indices + length, indices)


def nearest(indices: Array, length: int) -> Array:
    return np.clip(count_from_end(indices, length), 0, length - 1)


def test_a_read_outside_takes_the_nearest_element(tmp_path: Path) -> None:
    rows = np.repeat(HOSTILE[:, None], 4, axis=1)
    found = run("GatherElements", {"x": DATA, "i": rows}, [12, 4], tmp_path, axis=0)
    np.testing.assert_array_equal(found, DATA[nearest(HOSTILE, 5)])


def test_each_index_of_a_vector_is_bounded_by_its_axis(tmp_path: Path) -> None:
    pairs = np.stack([HOSTILE, HOSTILE[::-1]], axis=1)
    found = run("GatherND", {"x": DATA, "i": pairs}, [12], tmp_path)
    np.testing.assert_array_equal(found, DATA[nearest(pairs[:, 0], 5), nearest(pairs[:, 1], 4)])


@pytest.mark.parametrize("is_constant", [True, False])
def test_an_index_reads_every_part_of_a_concatenation(is_constant: bool, tmp_path: Path) -> None:
    column = DATA[:, :1]
    parts = {"a": column[:2], "b": column[2:3], "c": column[3:]}
    nodes = [node("Concat", [*parts], ["all"], axis=0), node("Gather", ["all", "i"], ["y"], axis=0)]
    inputs = [value(name, [*part.shape]) for name, part in parts.items()]
    indices = np.array([4, 0, 3, 2, 1, -1])
    constants = {"i": indices} if is_constant else {}
    given = parts if is_constant else {**parts, "i": indices}
    if not is_constant:
        inputs.append(value("i", [6], INT64))
    model = graph(nodes, inputs, [value("y", [6, 1])], constants).SerializeToString()
    ((found,),) = run_generated(model, [given], tmp_path, SANITIZED)
    np.testing.assert_array_equal(found, column[indices])


def test_a_sequence_longer_than_its_axis_is_read_within_it(tmp_path: Path) -> None:
    lengths = np.array([5, -3, LARGEST, -LARGEST - 1, 3])
    options = {"batch_axis": 0, "time_axis": 1}
    found = run("ReverseSequence", {"x": DATA, "i": lengths}, [5, 4], tmp_path, **options)
    expected = DATA.copy()
    expected[0] = DATA[0, [3, 3, 2, 1]]
    expected[2] = DATA[2, 3]
    expected[4] = DATA[4, [2, 1, 0, 3]]
    np.testing.assert_array_equal(found, expected)


COMBINE: dict[str, Callable[[float, float], float]] = {
    "none": lambda _, update: update,
    "add": lambda old, update: old + update,
    "mul": lambda old, update: old * update,
    "min": min,
    "max": max,
}


@pytest.mark.parametrize("reduction", COMBINE)
def test_an_element_outside_of_the_axis_is_not_written(reduction: str, tmp_path: Path) -> None:
    indices, updates = HOSTILE.reshape(3, 4), UPDATES.reshape(3, 4)
    given = {"x": DATA, "i": indices, "u": updates}
    found = run("ScatterElements", given, [5, 4], tmp_path, axis=0, reduction=reduction)
    expected = DATA.copy()
    for (row, column), index in np.ndenumerate(count_from_end(indices, 5)):
        if 0 <= index < 5:
            old = float(expected[index, column])
            expected[index, column] = COMBINE[reduction](old, float(updates[row, column]))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("reduction", COMBINE)
def test_a_vector_with_one_index_outside_is_not_written(reduction: str, tmp_path: Path) -> None:
    """Index (0, 4) is out of range, but its offset, that of (1, 0), is within the 20 elements."""
    pairs = np.stack([HOSTILE, np.array([4, 0, 3, 0, -4, 0, 0, 0, 0, 0, 0, 1])], axis=1)
    given = {"x": DATA, "i": pairs, "u": UPDATES}
    found = run("ScatterND", given, [5, 4], tmp_path, reduction=reduction)
    expected = DATA.copy()
    rows, columns = count_from_end(pairs[:, 0], 5), count_from_end(pairs[:, 1], 4)
    for row, column, update in zip(rows, columns, UPDATES, strict=True):
        if 0 <= row < 5 and 0 <= column < 4:
            expected[row, column] = COMBINE[reduction](float(expected[row, column]), float(update))
    np.testing.assert_array_equal(found, expected)


def test_a_grid_of_what_is_no_number_is_outside_of_the_picture(tmp_path: Path) -> None:
    places = np.array([np.inf, -np.inf, 3e38, -3e38, 1e10, -1e10, np.nan, 0.0], "float32")
    grid = np.stack([places, np.zeros(8, "float32")], axis=-1).reshape(1, 2, 4, 2)
    picture = np.ones((1, 1, 4, 4), "float32")
    found = run("GridSample", {"x": picture, "g": grid}, [1, 1, 2, 4], tmp_path, mode="nearest")
    np.testing.assert_array_equal(found.reshape(-1), [0, 0, 0, 0, 0, 0, 0, 1])


def test_a_region_of_any_size_ends_and_is_written(tmp_path: Path) -> None:
    """A region without samples is 0; a region of a missing image uses the nearest image."""
    regions = np.array([[2, 2, 1, 1], [0, 0, 3e38, 3], [0, 0, 4, 4], [0, 0, 4, 4]], "float32")
    given = {
        "x": np.stack([np.ones((1, 4, 4)), np.full((1, 4, 4), 2)]).astype("float32"),
        "r": regions,
        "b": np.array([0, 0, -1, LARGEST]),
    }
    options = {"output_height": 1, "output_width": 1}
    found = run("RoiAlign", given, [4, 1, 1, 1], tmp_path, **options).reshape(-1)
    np.testing.assert_allclose(found[[0, 2, 3]], [0, 1, 2])


def test_a_cast_that_several_operators_read_keeps_its_range(tmp_path: Path) -> None:
    nodes = [
        node("Cast", ["x"], ["i"], to=TensorProto.INT32),
        node("Sub", ["i", "i"], ["zero"]),
        node("Mul", ["i", "one"], ["y"]),
    ]
    outputs = [value(name, [5], TensorProto.INT32) for name in ("i", "zero", "y")]
    model = graph(nodes, [value("x", [5])], outputs, {"one": np.array(1, "int32")})
    given = np.array([1.5e9, -2e9, 3e9, -3e9, np.inf], "float32")
    ((found, zero, same),) = run_generated(
        model.SerializeToString(), [{"x": given}], tmp_path, SANITIZED
    )
    np.testing.assert_array_equal(found[:2], [1500000000, -2000000000])
    np.testing.assert_array_equal(same, found)
    assert not zero.any()


@pytest.mark.needs("gcc")
def test_a_single_pixel_is_reflected(tmp_path: Path) -> None:
    """The corners of one pixel have no distance."""
    grid = np.array([[[[-3, 0.4], [0.2, 1]]]], "float32")
    picture = np.array([[[[2.5]], [[-1.25]]]], "float32")
    found = run("GridSample", {"x": picture, "g": grid}, [1, 2, 1, 2], tmp_path, mode="nearest",
                padding_mode="reflection", align_corners=1)  # fmt: skip
    np.testing.assert_array_equal(found, [[[[2.5, 2.5]], [[-1.25, -1.25]]]])
