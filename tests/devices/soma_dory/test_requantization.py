"""Divisions by powers of two that become a right shift, without a change of a result."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

from firmwright.builder import Graph, random_array
from firmwright.devices.soma_dory.requantization import replace_divisions
from firmwright.ir.relax import main_bindings, operator_name
from firmwright.models.onnx.importer import import_model
from firmwright.partition.outline import partition_module
from firmwright.recipe.target import parse_target
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import load_platform
from firmwright.transforms import canonicalize
from tests.partition.test_by_cost import Imported, imported

op = relax.op
Step = Callable[[relax.Var], relax.Expr]


def number(value: float, dtype: str = "float32") -> relax.Expr:
    return relax.const(value, dtype)


def requantized(*steps: Step) -> tvm.IRModule:
    """Return a network that reads int32 sums and applies a function to them."""
    graph = Graph()
    value = graph.input("sums", (64,), "int32")
    for index, step in enumerate(steps):
        value = graph.emit(step(value), f"step_{index}")
    return canonicalize(graph.output(value).module())


def to(dtype: str) -> Step:
    return lambda x: op.astype(x, dtype)


def over(value: float, dtype: str = "float32") -> Step:
    return lambda x: op.divide(x, number(value, dtype))


def clip(low: float, high: float) -> Step:
    return lambda x: op.clip(x, low, high)


def at_least(value: float) -> Step:
    return lambda x: op.maximum(x, number(value))


def at_most(value: float) -> Step:
    return lambda x: op.minimum(x, number(value))


CHANNELS = (2 ** (np.arange(64) % 8)).astype("float32")

SAME = {
    "float": (to("float32"), over(128), op.floor, clip(-128, 127), to("int8")),
    "twice": (to("float32"), over(4), over(32), op.floor, clip(0, 127), to("int8")),
    "max and min": (to("float32"), over(64), op.floor, at_least(-128), at_most(127), to("int8")),
    "factor": (to("float32"), lambda x: op.multiply(x, number(2**-9)), op.floor, clip(-128, 127),
               to("int8")),
    "float32 at its limit": (to("float32"), over(2**17), op.floor, clip(-128, 127), to("int8")),
    "float64": (to("float64"), over(2**20, "float64"), op.floor, clip(-128, 127), to("int8")),
    "floor_divide": (lambda x: op.floor_divide(x, number(256, "int32")), clip(-128, 127),
                     to("int8")),
    "truncating, then ReLU": (over(16, "int32"), clip(0, 127), to("int8")),
}  # fmt: skip

OTHER = {
    "no power of two": (to("float32"), over(100), op.floor, clip(-128, 127), to("int8")),
    "truncating": (over(16, "int32"), clip(-128, 127), to("int8")),
    "float32 beyond its limit": (to("float32"), over(2**18), op.floor, clip(-128, 127), to("int8")),
    "no clip": (to("float32"), over(128), op.floor, to("int8")),
    "round": (to("float32"), over(128), op.round, clip(-128, 127), to("int8")),
    "too wide a clip": (to("float32"), over(128), op.floor, clip(-200, 127), to("int8")),
    "by channel": (to("float32"), lambda x: op.divide(x, relax.const(CHANNELS)), op.floor,
                   clip(-128, 127), to("int8")),
}  # fmt: skip


def run(module: tvm.IRModule, sums: npt.NDArray[np.int32]) -> npt.NDArray[np.int8]:
    machine = relax.VirtualMachine(tvm.compile(module, "llvm"), tvm.cpu())
    result: npt.NDArray[np.int8] = machine["main"](tvm.runtime.tensor(sums)).numpy()
    return result


def shifts(module: tvm.IRModule) -> bool:
    names = {operator_name(b.value) for b in main_bindings(module)}
    assert not ("relax.right_shift" in names and "relax.divide" in names)
    return "relax.right_shift" in names


@pytest.mark.parametrize("form", SAME)
def test_a_shift_gives_the_same_numbers(form: str) -> None:
    before = requantized(*SAME[form])
    after = replace_divisions(before)
    assert shifts(after)
    limits = [-(2**31), 2**31 - 1, -(2**24) - 1, 2**24 + 1, -1, 0, 1, 127, -129]
    near = [s * 2**k + d for s in (-1, 1) for k in (7, 14, 24, 30) for d in (-1, 0, 1)]
    drawn = random_array((64,), "int32", seed=7)
    edges = np.array([*limits, *near], "int32")
    drawn[: len(edges)] = edges
    np.testing.assert_array_equal(run(after, drawn), run(before, drawn))


@pytest.mark.parametrize("form", OTHER)
def test_what_a_shift_would_change_stays(form: str) -> None:
    assert not shifts(replace_divisions(requantized(*OTHER[form])))


def quantized_onnx() -> bytes:
    """Return Conv of integers, Div, Floor, Clip as an ONNX graph writes them."""
    weights = random_array((16, 16, 3, 3), seed=1)
    nodes = [
        helper.make_node("ConvInteger", ["x", "w"], ["sums"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Cast", ["sums"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Div", ["real", "divisor"], ["quotient"]),
        helper.make_node("Floor", ["quotient"], ["whole"]),
        helper.make_node("Clip", ["whole", "low", "high"], ["clipped"]),
        helper.make_node("Cast", ["clipped"], ["y"], name="last", to=TensorProto.INT8),
    ]
    constants = {"w": weights, "divisor": np.array(512, "f"), "low": np.array(0, "f"),
                 "high": np.array(127, "f")}  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.INT8, [1, 16, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.INT8, [1, 16, 8, 8])],
        [numpy_helper.from_array(v, n) for n, v in constants.items()],
    )
    opset = helper.make_opsetid("", 17)
    return bytes(helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString())


@pytest.mark.parametrize(("option", "devices"), [("1", {"soma_dory"}), ("0", {"c"})])
def test_the_option_decides_where_an_onnx_layer_runs(option: str, devices: set[str]) -> None:
    module, interface = import_model(quantized_onnx(), "model.onnx", {})
    target = parse_target(f"soma_dory -requant_transform={option}, c")
    mix = load_mix(target, load_platform("diana"), "onnx")
    _, partition = partition_module(canonicalize(module), interface, mix)
    (conv,) = (r for r in partition.regions if r.anchor == "conv2d")
    assert {conv.device} == devices
    assert conv.macs == 16 * 16 * 9 * 64
    if option == "0":
        (refusal,) = conv.refusals
        assert "its sums are followed by astype, divide, floor" in refusal.sentence


def shifted_layer() -> Imported:
    graph = Graph()
    x = graph.input("x", (1, 16, 8, 8))
    return imported(graph.output(graph.conv2d(x, "conv", random_array((16, 16, 3, 3), seed=1))))


@pytest.mark.parametrize(
    ("divides", "options", "start"),
    [
        (True, "-analog", "-analog: no effect: no layer runs on the analog core"),
        (True, "-requant_transform=0", ""),
        (False, "-requant_transform=0", "-requant_transform=0: no effect: no layer divides"),
        (False, "-requant_transform=1", ""),
    ],
)
def test_an_option_without_effect_is_a_note(divides: bool, options: str, start: str) -> None:
    imported_onnx = import_model(quantized_onnx(), "model.onnx", {})
    module, interface = imported_onnx if divides else shifted_layer()
    module = canonicalize(module)
    mix = load_mix(parse_target(f"soma_dory {options}, c"), load_platform("diana"), "onnx")
    _, partition = partition_module(module, interface, mix)
    notes = mix[0].list_idle_options(partition.regions, module)
    assert [note.startswith(start) for note in notes] == [True] * bool(start)
