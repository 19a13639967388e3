"""Models become QDQ Relax with their names, and downloads are found by content."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model
from tvm import relax

from firmwright.data.fetch import fetch_model
from firmwright.errors import UserError
from firmwright.models import FORMATS, format_of
from firmwright.models.onnx.converters import check_results
from firmwright.models.onnx.importer import import_model
from firmwright.partition.outline import partition_module
from firmwright.recipe.target import parse_target
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import load_platform
from firmwright.transforms import canonicalize
from tests.networks.firmware import run_generated

FLOAT = TensorProto.FLOAT
MIX = load_mix(parse_target("c"), load_platform("host"), "onnx")


def model(nodes: list[onnx.NodeProto], constants: dict[str, np.ndarray], out: list[int]) -> bytes:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", FLOAT, [1, 2, 4, 4])],
        [helper.make_tensor_value_info("y", FLOAT, out)],
        [numpy_helper.from_array(v, n) for n, v in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def regions(data: bytes) -> list[tuple[str, ...]]:
    module, interface = import_model(data, "m.onnx", {})
    _, partition = partition_module(canonicalize(module), interface, MIX)
    return [r.operators for r in partition.regions]


def test_relu_joins_its_convolution_and_names_survive() -> None:
    data = model(
        [
            helper.make_node("Conv", ["x", "w", "b"], ["a"], name="first", pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["a"], ["r"], name="second"),
            helper.make_node("MaxPool", ["r"], ["y"], name="third", kernel_shape=[2, 2]),
        ],
        {"w": np.ones((3, 2, 3, 3), "float32"), "b": np.ones(3, "float32")},
        [1, 3, 3, 3],
    )
    module, interface = import_model(data, "m.onnx", {})
    _, partition = partition_module(canonicalize(module), interface, MIX)
    assert [r.operators for r in partition.regions] == [("conv2d", "add", "relu"), ("max_pool2d",)]
    assert [r.sources for r in partition.regions] == [("first", "second"), ("third",)]
    assert partition.macs == 3 * 4 * 4 * 2 * 9


def test_reshape_between_equal_grids_needs_no_float() -> None:
    grid = {"s": np.array(0.5, "float32"), "z": np.array(3, "int8")}
    data = model(
        [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
            helper.make_node("MaxPool", ["d"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
            helper.make_node("Reshape", ["p", "shape"], ["r"]),
            helper.make_node("QuantizeLinear", ["r", "s", "z"], ["q2"]),
            helper.make_node("DequantizeLinear", ["q2", "s", "z"], ["y"]),
        ],
        {**grid, "shape": np.array([1, 8], "int64")},
        [1, 8],
    )
    found = regions(data)
    assert found[0] == ("quantize",)
    assert ("max_pool2d",) in found
    assert sum("dequantize" in operators for operators in found) == 1


def test_residual_has_two_readers_and_no_cycle() -> None:
    data = model(
        [
            helper.make_node("Relu", ["x"], ["a"]),
            helper.make_node("Conv", ["a", "w"], ["b"], pads=[1, 1, 1, 1]),
            helper.make_node("Add", ["a", "b"], ["y"]),
        ],
        {"w": np.ones((2, 2, 3, 3), "float32")},
        [1, 2, 4, 4],
    )
    assert regions(data) == [("relu",), ("conv2d", "add")]


def test_split_becomes_slices() -> None:
    """Slices of adjacent elements are read in place, so they are not computed with the product."""
    data = model(
        [
            helper.make_node("Split", ["x"], ["a", "b"], axis=1),
            helper.make_node("Mul", ["a", "b"], ["y"]),
        ],
        {},
        [1, 1, 4, 4],
    )
    assert regions(data) == [("strided_slice",), ("strided_slice",), ("multiply",)]


@pytest.mark.parametrize(("name", "kind"), [("m.onnx", "onnx"), ("a/M.TFLITE", "tflite")])
def test_format_is_told_by_the_suffix(name: str, kind: str) -> None:
    assert format_of(name, None).name == kind


def test_unknown_suffix_and_unknown_format() -> None:
    with pytest.raises(UserError, match="is not the suffix of a model format"):
        format_of("m.pb", None)
    with pytest.raises(UserError, match="did you mean 'tflite'"):
        format_of("m.pb", "tflit")


def test_mirror_that_is_no_folder_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FIRMWRIGHT_MIRROR", str(tmp_path / "missing"))
    with pytest.raises(UserError, match="is not a folder"):
        fetch_model("http://127.0.0.1:9/m", "0" * 64)


def test_download_is_checked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import functools
    import http.server
    import threading

    monkeypatch.delenv("FIRMWRIGHT_MIRROR", raising=False)
    (tmp_path / "m.bin").write_bytes(b"model")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/m.bin"
        good = hashlib.sha256(b"model").hexdigest()
        assert fetch_model(url, good) == b"model"
        with pytest.raises(UserError) as raised:
            fetch_model(url, "0" * 64)
        server.shutdown()
    assert "0" * 64 in str(raised.value)
    assert good in str(raised.value)


def test_shape_arithmetic_is_done_at_build_time() -> None:
    import tvm
    from tvm import relax

    from firmwright.ir.relax import main_bindings, operator_name

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            shape = builder.emit(relax.op.shape_to_tensor(builder.emit(relax.op.shape_of(x))))
            rows = builder.emit(relax.op.take(shape, relax.const(0, "int64"), axis=0))
            last = builder.emit(relax.op.subtract(rows, relax.const(1, "int64")))
            result = builder.emit_output(relax.op.take(x, last, axis=0))
        builder.emit_func_output(result)
    (call,) = (b.value for b in main_bindings(canonicalize(builder.get())))
    assert operator_name(call) == "relax.take"
    assert isinstance(call.args[1], tvm.ir.GenericConst)
    assert call.args[1].value.numpy() == 1


def test_operators_that_the_importer_brings_as_tir_join_regions_too() -> None:
    data = model(
        [
            helper.make_node("Conv", ["x", "w"], ["a"]),
            helper.make_node("Clip", ["a", "low", "high"], ["y"]),
        ],
        {
            "w": np.ones((3, 2, 1, 1), "float32"),
            "low": np.array(0, "float32"),
            "high": np.array(6, "float32"),
        },
        [1, 3, 4, 4],
    )
    assert regions(data) == [("conv2d", "maximum", "minimum")]


def test_gather_never_reads_outside_its_tensor() -> None:
    from firmwright.ir.relax import main_bindings, operator_name
    from firmwright.transforms.undefined_behavior import clamp_take_indices

    data = model(
        [helper.make_node("Gather", ["x", "i"], ["y"], axis=1)],
        {"i": np.array([1, 0], "int64")},
        [1, 2, 4, 4],
    )
    module = clamp_take_indices(import_model(data, "m.onnx", {})[0])
    takes = [b.value for b in main_bindings(module) if operator_name(b.value) == "relax.take"]
    assert takes
    assert "fast" not in [str(t.attrs.mode) for t in takes]


@pytest.mark.needs("gcc")
def test_a_token_out_of_range_is_told_and_reads_nothing_outside(tmp_path: Path) -> None:
    from firmwright.models.onnx.importer import run_reference
    from tests.networks.firmware import SANITIZED, run_generated

    rows = np.arange(12, dtype="float32").reshape(4, 3)
    graph = helper.make_graph(
        [helper.make_node("Gather", ["rows", "tokens"], ["y"])],
        "g",
        [helper.make_tensor_value_info("tokens", TensorProto.INT64, [3])],
        [helper.make_tensor_value_info("y", FLOAT, [3, 3])],
        [numpy_helper.from_array(rows, "rows")],
    )
    opsets = [helper.make_opsetid("", 17)]
    data = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    given = [{"tokens": np.array([1, 9, 2], "int64")}]
    with pytest.raises(UserError, match="out of data bounds, idx=9"):
        run_reference(data, given)
    ((found,),) = run_generated(data, given, tmp_path, SANITIZED)
    np.testing.assert_array_equal(found, rows[[1, 3, 2]])


def test_equal_weights_under_two_names_are_stored_once() -> None:
    from tests.networks.firmware import lowered

    weights = np.random.default_rng(0).normal(0, 1, (4, 4)).astype("float32")
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "second"], ["y"]),
    ]
    data = model(nodes, {"first": weights, "second": weights.copy()}, [1, 2, 4, 4])
    network = lowered(data)
    assert len(network.kernels.kernels) == 2
    assert sum(name.endswith("weights") for name in network.weights) == 1


def test_graph_that_onnx_runtime_refuses_is_judged_by_onnx_itself() -> None:
    from firmwright.models.onnx.importer import run_reference

    graph = helper.make_graph(
        [helper.make_node("Floor", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.INT32, [2])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, [2])],
    )
    opsets = [helper.make_opsetid("", 17)]
    data = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    reference = run_reference(data, [{"x": np.array([3, -4], "int32")}])
    assert reference.runtime.startswith("onnx ")
    assert reference.outputs[0][0].tolist() == [3, -4]


@pytest.mark.parametrize(
    ("shape", "output", "message"),
    [
        ([2, 0], helper.make_tensor_value_info("y", FLOAT, [2, 0]), "input 'x' has no elements"),
        ([2, 3], helper.make_tensor_sequence_value_info("y", FLOAT, None), "'y' is a sequence"),
    ],
)
def test_what_is_no_tensor_with_elements_is_refused(
    shape: list[int], output: onnx.ValueInfoProto, message: str
) -> None:
    kind = "SplitToSequence" if shape == [2, 3] else "Relu"
    graph = helper.make_graph(
        [helper.make_node(kind, ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", FLOAT, shape)],
        [output],
    )
    opsets = [helper.make_opsetid("", 17)]
    data = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    with pytest.raises(UserError, match=message):
        import_model(data, "m.onnx", {})


@pytest.mark.needs("gcc")
def test_a_network_whose_outputs_have_no_elements_computes_nothing(tmp_path: Path) -> None:
    """ISO C has no empty structs, so the compiler would warn."""
    data = model(
        [helper.make_node("Slice", ["x", "nine", "nine"], ["y"])],
        {"nine": np.array([9])},
        [0, 2, 4, 4],
    )
    _, interface = import_model(data, "m.onnx", {})
    assert interface.outputs == ()
    assert interface.remarks == ("output 'y' has no elements and is removed",)
    x = np.zeros((1, 2, 4, 4), "float32")
    assert run_generated(data, [{"x": x}] * 2, tmp_path, ("-Wpedantic", "-Werror")) == [[], []]


def test_a_stand_in_for_a_result_is_refused() -> None:
    """TVM has such constants in place of the results of training."""
    data = relax.Var("x", relax.TensorType([2], "float32"))
    results = relax.Tuple([data, relax.const(0, "float32")])
    with pytest.raises(UserError, match="only 1 of its 2 results can be compiled"):
        check_results(results, [data], {"tvm_custom": {"num_outputs": 2}})


def test_a_pytorch_program_without_torch_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, FORMATS["pt2"].module, raising=False)
    with pytest.raises(UserError, match=r"needs the package torch: pip install .*torch"):
        FORMATS["pt2"].load()


TRAINING_STEP = """
<ir_version: 8, opset_import: ["" : 17, "ai.onnx.preview.training" : 1]>
network (float r, int64 t, float[2] x, float[2] g, float[2] v) => (float[2] y, float[2] w) {
    [step] y, w = ai.onnx.preview.training.Momentum <
        alpha = 0.9, beta = 1.0, mode = "standard", norm_coefficient = 0.0
    > (r, t, x, g, v)
}
"""


def test_training_operators_are_rejected() -> None:
    message = (
        r"^m.onnx: training operators are not part of inference:\n"
        r"  ai.onnx.preview.training.Momentum \(node 'step'\)\n"
        r"  export the model for inference$"
    )
    with pytest.raises(UserError, match=message):
        import_model(parse_model(TRAINING_STEP).SerializeToString(), "m.onnx", {})
