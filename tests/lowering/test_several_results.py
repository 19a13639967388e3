"""Operators with several results, and outputs without an operator, equal ONNX Runtime.

The generated C runs under gcc's sanitizers: undefined behavior ends it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from firmwright.errors import UserError
from firmwright.models.onnx.importer import import_model, run_reference
from firmwright.models.tflite import importer as tflite
from firmwright.planning.plan import Output
from tests.lowering.test_tflite_kernels import assert_equal
from tests.networks.firmware import SANITIZED, Sample, lowered, random_samples, run_generated
from tests.networks.tflite_models import ModelBuilder

pytestmark = pytest.mark.needs("gcc")

FLOAT, INT64, INT8, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT8, TensorProto.BOOL
Port = tuple[str, int, Sequence[int | str]]
node = helper.make_node


def model(
    nodes: list[onnx.NodeProto],
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    constants: Mapping[str, npt.NDArray[Any]] | None = None,
    opset: int = 17,
) -> bytes:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(*port) for port in inputs],
        [helper.make_tensor_value_info(*port) for port in outputs],
        [numpy_helper.from_array(v, n) for n, v in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def check(data: bytes, samples: list[Sample], folder: Path) -> list[list[npt.NDArray[Any]]]:
    """Compare generated C and ONNX Runtime: types, shapes and bits of every output."""
    found = run_generated(data, samples, folder, SANITIZED, "onnx")
    reference = run_reference(data, samples)
    assert reference.runtime.startswith("onnxruntime")
    for mine, theirs in zip(found, reference.outputs, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            assert a.tobytes() == b.tobytes()
    return found


def coarse(shape: Sequence[int], dtype: str, seed: int) -> npt.NDArray[Any]:
    """Random values with many equal ones, including both zeros."""
    values = np.random.default_rng(seed).integers(-4, 5, shape)
    return np.asarray((values * np.array(0.5 if dtype == "float32" else 1, dtype)), dtype)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize(
    ("shape", "axis", "k"), [([7], 0, 3), ([2, 9, 3], 1, 4), ([3, 5], -1, 5), ([4, 3], 0, 1)]
)
def test_topk_keeps_the_order_of_equal_elements(
    tmp_path: Path, shape: list[int], axis: int, k: int, largest: int
) -> None:
    result = list(shape)
    result[axis] = k
    data = model(
        [
            node("TopK", ["x", "k"], ["v", "i"], name="top", axis=axis, largest=largest),
            node("TopK", ["n", "k"], ["w", "j"], name="whole", axis=axis, largest=largest),
        ],
        [("x", FLOAT, shape), ("n", INT64, shape)],
        [("v", FLOAT, result), ("i", INT64, result), ("w", INT64, result), ("j", INT64, result)],
        {"k": np.array([k], "int64")},
    )
    samples = [{"x": coarse(shape, "float32", s), "n": coarse(shape, "int64", s)} for s in range(4)]
    ordered = np.arange(np.prod(shape)).reshape(shape)
    samples += [{"x": d.astype("float32"), "n": d.astype("int64")} for d in (ordered, -ordered)]
    check(data, samples, tmp_path)


def test_topk_reads_a_part_of_a_tensor_in_the_same_region(tmp_path: Path) -> None:
    data = model(
        [
            node("Slice", ["x", "start", "end"], ["part"], name="part"),
            node("TopK", ["part", "k"], ["v", "i"], name="top"),
        ],
        [("x", FLOAT, [5, 16])],
        [("v", FLOAT, [2, 4]), ("i", INT64, [2, 4])],
        {n: np.array([v], "int64") for n, v in (("start", 1), ("end", 3), ("k", 4))},
    )
    check(data, [{"x": coarse([5, 16], "float32", s)} for s in range(3)], tmp_path)


@pytest.mark.parametrize("largest", [0, 1])
def test_topk_puts_infinities_first_and_nan_last(tmp_path: Path, largest: int) -> None:
    data = model(
        [node("TopK", ["x", "k"], ["v", "i"], axis=0, largest=largest)],
        [("x", FLOAT, [6])],
        [("v", FLOAT, [6]), ("i", INT64, [6])],
        {"k": np.array([6], "int64")},
    )
    x = np.array([np.nan, -np.inf, 1, np.nan, np.inf, 0], "float32")
    ((_, indices),) = run_generated(data, [{"x": x}], tmp_path, SANITIZED, "onnx")
    assert indices.tolist() == ([4, 2, 5, 1] if largest else [1, 5, 2, 4]) + [0, 3]


def test_results_that_nothing_reads_are_no_tensors(tmp_path: Path) -> None:
    data = model(
        [
            node("TopK", ["x", "k"], ["v", "i"], name="top"),
            node("Neg", ["i"], ["n"]),
            node("TopK", ["x", "k"], ["w", "j"], name="other", largest=0),
            node("Relu", ["w"], ["y"]),
        ],
        [("x", FLOAT, [2, 40])],
        [("n", INT64, [2, 3]), ("y", FLOAT, [2, 3])],
        {"k": np.array([3], "int64")},
    )
    network = lowered(data, "onnx")
    anchors = {r.anchor: r.outputs for r in network.partition.regions if r.anchor == "topk"}
    assert [len(outputs) for outputs in anchors.values()] == [1]
    check(data, [{"x": coarse([2, 40], "float32", s)} for s in range(3)], tmp_path)


def test_results_are_read_by_several_and_long_after(tmp_path: Path) -> None:
    data = model(
        [
            node("TopK", ["x", "k"], ["v", "i"], name="top"),
            node("Softmax", ["v"], ["s"]),
            node("Softmax", ["s"], ["t"]),
            node("Cast", ["i"], ["c"], to=FLOAT),
            node("Mul", ["t", "c"], ["p"]),
            node("Add", ["p", "v"], ["y"]),
        ],
        [("x", FLOAT, [2, 40])],
        [("y", FLOAT, [2, 8]), ("i", INT64, [2, 8])],
        {"k": np.array([8], "int64")},
    )
    network = lowered(data, "onnx")
    lifetimes = {b.name: (b.first, b.last) for b in network.plan.buffers}
    (top,) = (r for r in network.partition.regions if r.anchor == "topk")
    steps = len(network.partition.regions)
    assert len(top.outputs) == 2
    assert lifetimes[top.outputs[0]] == (0, steps - 1)
    assert network.plan.locations[top.outputs[1]] == Output(1)
    samples = [{"x": coarse([2, 40], "float32", s)} for s in range(3)]
    (values,) = run_generated(data, samples[:1], tmp_path, SANITIZED, "onnx")
    expected = run_reference(data, samples[:1]).outputs[0]
    assert np.allclose(values[0], expected[0], rtol=1e-6)
    assert np.array_equal(values[1], expected[1])


def test_dropout_gives_its_mask(tmp_path: Path) -> None:
    data = model(
        [
            node("Relu", ["x"], ["r"]),
            node("Dropout", ["r"], ["y", "mask"], name="drop"),
            node("Where", ["mask", "y", "x"], ["z"]),
        ],
        [("x", FLOAT, [2, 3])],
        [("y", FLOAT, [2, 3]), ("mask", BOOL, [2, 3]), ("z", FLOAT, [2, 3])],
    )
    check(data, [{"x": coarse([2, 3], "float32", s)} for s in range(2)], tmp_path)


def test_uneven_split(tmp_path: Path) -> None:
    data = model(
        [node("Split", ["x", "sizes"], ["a", "b", "c"], axis=1)],
        [("x", FLOAT, [2, 6])],
        [("a", FLOAT, [2, 1]), ("b", FLOAT, [2, 3]), ("c", FLOAT, [2, 2])],
        {"sizes": np.array([1, 3, 2], "int64")},
    )
    check(data, [{"x": coarse([2, 6], "float32", s)} for s in range(2)], tmp_path)


def test_split_results_are_joined_again(tmp_path: Path) -> None:
    data = model(
        [
            node("Split", ["x"], ["a", "b"], axis=1),
            node("Concat", ["b", "a", "b"], ["y"], axis=1),
        ],
        [("x", INT8, [2, 6])],
        [("y", INT8, [2, 9])],
    )
    check(data, [{"x": coarse([2, 6], "int8", 1)}], tmp_path)


def test_outputs_that_no_operator_computes(tmp_path: Path) -> None:
    numbers = np.arange(6, dtype="float32").reshape(2, 3)
    data = model(
        [
            node("Relu", ["x"], ["y"]),
            node("Identity", ["y"], ["again"]),
            node("Identity", ["x"], ["input"]),
            node("Identity", ["numbers"], ["constant"]),
            node("Identity", ["numbers"], ["constant again"]),
            node("Identity", ["truth"], ["scalar"]),
        ],
        [("x", FLOAT, [2, 3])],
        [(n, FLOAT, [2, 3]) for n in ("y", "again", "input", "constant", "constant again")]
        + [("scalar", BOOL, [])],
        {"numbers": numbers, "truth": np.array(True)},
    )
    found = check(data, [{"x": coarse([2, 3], "float32", s)} for s in range(2)], tmp_path)
    assert np.array_equal(found[1][3], numbers)


def test_network_without_any_computation(tmp_path: Path) -> None:
    data = model(
        [node("Identity", ["x"], ["y"]), node("Identity", ["x"], ["z"])],
        [("x", INT8, [3])],
        [("y", INT8, [3]), ("z", INT8, [3])],
    )
    assert lowered(data, "onnx").partition.regions == ()
    check(data, [{"x": np.array([1, -128, 3], "int8")}], tmp_path)


PICTURE: Port = ("x", FLOAT, [1, 3, 4, 4])
PER_CHANNEL = {name: np.ones(3, "float32") for name in ("s", "b", "m", "v")}


@pytest.mark.parametrize(
    ("nodes", "outputs", "opset", "message"),
    [
        (
            [node("BatchNormalization", ["x", *PER_CHANNEL], [*"ynwcd"], name="norm")],
            [("y", FLOAT, [1, 3, 4, 4]), ("n", FLOAT, [3])],
            13,
            r"BatchNormalization \(node 'norm'\): it is in training mode; export the model for",
        ),
        (
            [node("BatchNormalization", ["x", *PER_CHANNEL], [*"ynw"], name="norm",
                  training_mode=1)],
            [("y", FLOAT, [1, 3, 4, 4]), ("n", FLOAT, [3])],
            15,
            r"BatchNormalization \(node 'norm'\): it is in training mode; export the model for",
        ),
        (
            [node("Dropout", ["x", "", "yes"], ["y"], name="drop")],
            [("y", FLOAT, [1, 3, 4, 4])],
            17,
            r"Dropout \(node 'drop'\): it is in training mode; export the model for inference",
        ),
        (
            [node("Dropout", ["x"], ["y", "mask"], name="drop")],
            [("y", FLOAT, [1, 3, 4, 4]), ("mask", BOOL, [1, 3, 4, 4])],
            10,
            r"Dropout \(node 'drop'\): its mask has no defined value in opset 10",
        ),
    ],
)  # fmt: skip
def test_what_the_importer_would_make_up_is_refused(
    nodes: list[onnx.NodeProto], outputs: list[Port], opset: int, message: str
) -> None:
    used = {i for n in nodes for i in n.input}
    constants = {**PER_CHANNEL, "w": np.ones(4, "float32"), "yes": np.array(True)}
    chosen = {n: v for n, v in constants.items() if n in used}
    with pytest.raises(UserError, match=message):
        import_model(model(nodes, [PICTURE], outputs, chosen, opset), "m.onnx", {})


def test_results_counted_at_run_time_are_refused_by_name() -> None:
    data = model(
        [
            node("NonZero", ["x"], ["y"], name="places"),
            node("Identity", ["y"], ["z"]),
        ],
        [("x", FLOAT, [1, 6, 4])],
        [("z", INT64, [3, "n"])],
        {},
    )
    message = r"output 'z' has no static shape; .* end the model before NonZero \(node 'places'\)"
    with pytest.raises(UserError, match=message):
        lowered(data, "onnx")


def test_call_of_a_function_that_does_not_exist_is_refused() -> None:
    from firmwright.codegen.c_library import find_unknown_functions

    assert find_unknown_functions(
        ["expf", "exp", "fixed_product", "isnan", "abs", "TVMFuncCall"]
    ) == [
        "TVMFuncCall",
        "abs",
    ]


def test_tflite_topk_and_split(tmp_path: Path) -> None:
    builder = ModelBuilder()
    source = builder.input((2, 60), "float32", None)
    count, axis = (builder.constant(np.array(n, "int32")) for n in (7, 1))
    top = [builder.output((2, 7), dtype, None) for dtype in ("float32", "int32")]
    builder.operator("TOPK_V2", [source, count], top, "TopKV2Options")
    parts = [builder.output((2, 20), "float32", None) for _ in range(3)]
    builder.operator("SPLIT", [axis, source], parts, "SplitOptions", numSplits=3)
    data = builder.build()
    samples = [{n: np.round(x) for n, x in s.items()} for s in random_samples(data, 4, 0)]
    assert_equal(
        run_generated(data, samples, tmp_path, SANITIZED),
        tflite.run_reference(data, samples).outputs,
    )
