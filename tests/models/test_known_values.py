"""Sizes that a TFLite model computes become constants when its input shapes are fixed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from firmwright.errors import UserError
from firmwright.models import FORMATS
from firmwright.models.tflite import importer as tflite
from tests.lowering.test_tflite_kernels import assert_equal
from tests.networks.firmware import random_samples, run_generated
from tests.networks.tflite_models import ModelBuilder, Quantization

GRID = Quantization(0.1, 3)


def ints(*values: int) -> np.ndarray:
    return np.array(values, "int32")


def add_batch(builder: ModelBuilder, source: int, rank: int) -> int:
    """Add SHAPE and STRIDED_SLICE; return the scalar tensor of the first length."""
    shape, batch = builder.tensor((rank,), "int32", None), builder.tensor((), "int32", None)
    builder.operator("SHAPE", [source], [shape], "ShapeOptions", version=1, outType=2)
    bounds = [builder.constant(ints(v)) for v in (0, 1, 1)]
    builder.operator("STRIDED_SLICE", [shape, *bounds], [batch], "StridedSliceOptions",
                     version=1, shrinkAxisMask=1)  # fmt: skip
    return batch


def write_flatten(dtype: str) -> bytes:
    """Return a reshape to (batch, 12), as Keras exports Flatten with an open batch."""
    builder = ModelBuilder()
    grid = None if dtype == "float32" else GRID
    source = builder.input((1, 2, 6), dtype, grid)
    builder.graph.tensors[source].shapeSignature = [-1, 2, 6]
    batch, packed = add_batch(builder, source, 3), builder.tensor((2,), "int32", None)
    length = builder.constant(np.array(12, "int32"))
    builder.operator("PACK", [batch, length], [packed], "PackOptions", version=1, valuesCount=2)
    result = builder.output((1, 12), dtype, grid)
    builder.graph.tensors[result].shapeSignature = [-1, 12]
    builder.operator("RESHAPE", [source, packed], [result], "ReshapeOptions", version=1)
    return builder.build()


def write_filled_state() -> bytes:
    """Return the sum of an int8 input and a state of zeros, which FILL creates from the batch."""
    builder = ModelBuilder()
    source = builder.input((1, 4), "int8", GRID)
    batch, packed = add_batch(builder, source, 2), builder.tensor((2,), "int32", None)
    length = builder.constant(np.array(4, "int32"))
    builder.operator("PACK", [batch, length], [packed], "PackOptions", version=1, valuesCount=2)
    zero = builder.constant(np.array(GRID.zero_point, "int8"), GRID)
    state = builder.tensor((1, 4), "int8", GRID)
    builder.operator("FILL", [packed, zero], [state], "FillOptions", version=3)
    builder.operator("ADD", [source, state], [builder.output((1, 4), "int8", GRID)], "AddOptions")
    return builder.build()


def write_scalar() -> bytes:
    """Return the product of an input and one of its elements, which a slice makes a scalar."""
    builder = ModelBuilder()
    source, scalar = builder.input((3,), "float32", None), builder.tensor((), "float32", None)
    bounds = [builder.constant(ints(v)) for v in (1, 2, 1)]
    builder.operator("STRIDED_SLICE", [source, *bounds], [scalar], "StridedSliceOptions",
                     version=1, shrinkAxisMask=1)  # fmt: skip
    result = builder.output((3,), "float32", None)
    builder.operator("MUL", [source, scalar], [result], "MulOptions", version=1)
    return builder.build()


def write_dense_without_bias() -> bytes:
    """Return a dense layer whose bias is -1 (no tensor), as Keras exports it."""
    builder = ModelBuilder()
    source = builder.input((1, 4), "float32", None)
    weights = builder.constant(np.arange(8, dtype="float32").reshape(2, 4))
    result = builder.output((1, 2), "float32", None)
    builder.operator("FULLY_CONNECTED", [source, weights, -1], [result], "FullyConnectedOptions")
    return builder.build()


def write_dilation() -> bytes:
    """Return what a dilated Conv1D with an open batch becomes; the converter states a batch of 1.

    SPACE_TO_BATCH_ND moves a factor of 2 into the batch, and EXPAND_DIMS adds an axis.
    """
    builder = ModelBuilder()

    def tensor(*shape: int) -> int:
        index = builder.tensor(shape, "float32", None)
        builder.graph.tensors[index].shapeSignature = [-1, *shape[1:]]
        return index

    source = builder.input((1, 4, 3), "float32", None)
    moved, expanded, joined, result = (
        tensor(1, 2, 3), tensor(1, 1, 2, 3), tensor(1, 2, 3), tensor(1, 4, 3),
    )  # fmt: skip
    block, ends = builder.constant(ints(2)), builder.constant(np.zeros((1, 2), "int32"))
    axis, sizes = builder.constant(np.array(1, "int32")), builder.constant(ints(-1, 2, 3))
    builder.operator("SPACE_TO_BATCH_ND", [source, block, ends], [moved], "SpaceToBatchNDOptions")
    builder.operator("EXPAND_DIMS", [moved, axis], [expanded], "ExpandDimsOptions", version=1)
    builder.operator("RESHAPE", [expanded, sizes], [joined], "ReshapeOptions", version=1)
    builder.operator("BATCH_TO_SPACE_ND", [joined, block, ends], [result], "BatchToSpaceNDOptions")
    builder.graph.outputs.append(result)
    return builder.build()


MODELS = {
    "dilation": write_dilation(),
    "no bias": write_dense_without_bias(),
    "flatten float32": write_flatten("float32"),
    "flatten int8": write_flatten("int8"),
    "filled state": write_filled_state(),
    "scalar": write_scalar(),
}


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("data", MODELS.values(), ids=MODELS)
def test_computed_sizes_are_constants(data: bytes, tmp_path: Path) -> None:
    inputs = random_samples(data, 2, 0)
    found = run_generated(data, inputs, tmp_path)
    assert_equal(found, tflite.run_reference(data, inputs).outputs)


def test_computed_sizes_follow_the_recipe_s_shapes() -> None:
    shapes = {"t0": (5, 2, 6)}
    _, interface = FORMATS["tflite"].load().import_model(MODELS["flatten int8"], "net", shapes)
    assert interface.results[0].shape == (5, 12)


def test_an_operator_with_fewer_results_than_it_computes_is_rejected() -> None:
    builder = ModelBuilder()
    axis, source = builder.constant(np.array(0, "int32")), builder.input((4,), "float32", None)
    builder.operator("SPLIT", [axis, source], [builder.output((2,), "float32", None)],
                     "SplitOptions", version=1, numSplits=2)  # fmt: skip
    with pytest.raises(UserError, match=r"SPLIT .*computes 2 results, but the file names 1"):
        FORMATS["tflite"].load().import_model(builder.build(), "net", {})


def test_sizes_that_the_values_of_an_input_decide_are_rejected() -> None:
    builder = ModelBuilder()
    source, size = builder.input((4,), "float32", None), builder.input((2,), "int32", None)
    result = builder.output((2, 2), "float32", None)
    builder.operator("RESHAPE", [source, size], [result], "ReshapeOptions", version=1)
    with pytest.raises(UserError, match=r"RESHAPE .*sizes or axes, 't1', are"):
        FORMATS["tflite"].load().import_model(builder.build(), "net", {})


def test_sizes_are_known_if_the_network_divides_by_its_input() -> None:
    builder = ModelBuilder()
    source = builder.input((1, 4), "int32", None)
    batch, quotient = add_batch(builder, source, 2), builder.tensor((1, 4), "int32", None)
    hundred = builder.constant(ints(100))
    builder.operator("FLOOR_DIV", [hundred, source], [quotient], "FloorDivOptions", version=1)
    packed = builder.tensor((2,), "int32", None)
    length = builder.constant(np.array(4, "int32"))
    builder.operator("PACK", [length, batch], [packed], "PackOptions", version=1, valuesCount=2)
    result = builder.output((4, 1), "int32", None)
    builder.operator("RESHAPE", [quotient, packed], [result], "ReshapeOptions", version=1)
    (tensor,) = tflite.import_model(builder.build(), "net", {})[1].outputs
    assert tensor.shape == (4, 1)


def test_a_size_that_becomes_a_scalar_is_known() -> None:
    """The shape of a scalar is a constant without elements."""
    builder = ModelBuilder()
    source = builder.input((2, 6), "float32", None)
    shape, scalar = builder.tensor((2,), "int32", None), builder.tensor((), "int32", None)
    builder.operator("SHAPE", [source], [shape], "ShapeOptions", version=1, outType=2)
    lengths = [builder.tensor((1,), "int32", None) for _ in range(2)]
    counts, axis = builder.constant(ints(1, 1)), builder.constant(np.array(0, "int32"))
    builder.operator("SPLIT_V", [shape, counts, axis], lengths, "SplitVOptions",
                     version=1, numSplits=2)  # fmt: skip
    builder.operator("RESHAPE", [lengths[1], builder.constant(ints())], [scalar],
                     "ReshapeOptions", version=1)  # fmt: skip
    two, packed = builder.constant(np.array(2, "int32")), builder.tensor((2,), "int32", None)
    builder.operator("PACK", [scalar, two], [packed], "PackOptions", version=1, valuesCount=2)
    result = builder.output((6, 2), "float32", None)
    builder.operator("RESHAPE", [source, packed], [result], "ReshapeOptions", version=1)
    (tensor,) = tflite.import_model(builder.build(), "net", {})[1].outputs
    assert tensor.shape == (6, 2)


@pytest.mark.parametrize(
    ("kind", "operands", "message"),
    [
        ("SLICE", [(2,), (2,)], r"SLICE \(tensor 't3'\): its positions, .* 't1', are known"),
        ("ARG_MAX", [()], r"ARG_MAX \(tensor 't2'\): its positions, sizes or axes, 't1', are"),
        ("WHERE", [], r"WHERE \(tensor 't1'\) has a result whose length is known only at run time"),
    ],
)
def test_values_that_only_a_run_knows_are_named(
    kind: str, operands: list[tuple[int, ...]], message: str
) -> None:
    builder = ModelBuilder()
    given = [builder.input((4, 3), "float32", None)]
    given += [builder.input(shape, "int32", None) for shape in operands]
    result = builder.output((2, 2), "int64" if kind == "WHERE" else "float32", None)
    builder.operator(kind, given, [result], f"{kind.title().replace('_', '')}Options", 1)
    with pytest.raises(UserError, match=message):
        tflite.import_model(builder.build(), "model", {})
