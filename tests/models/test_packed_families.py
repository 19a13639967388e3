"""Weights of few bits from each dialect stay packed in the flash of each family of cores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import pytest

from firmwright.compile import compile_network
from firmwright.ir.small_types import find_limits
from firmwright.models import FORMATS
from firmwright.recipe.target import parse_target
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import load_platform
from tests.networks.onnx_models import graph, node, value
from tests.networks.tflite_models import ModelBuilder
from tests.networks.tflite_operators import SAME, shaped
from tests.networks.tflite_weighted import Weighted, add_weighted, windows

FAMILIES = ("rv32-bare", "cortex-m4-bare", "cortex-m55-bare", "aarch64-linux", "host")
CHANNELS, DEPTH = 32, 64
SHAPES = {
    "MatMul": ((DEPTH, CHANNELS), (3, DEPTH)),
    "Conv": ((CHANNELS, 16, 3, 3), (1, 16, 5, 5)),
    "depthwise": ((DEPTH, 1, 3, 3), (1, DEPTH, 5, 5)),
    "Gather": ((DEPTH, CHANNELS), (3,)),
}
GRID: dict[str, Any] = {
    name: np.float32(number)
    for name, number in {"s": 0.05, "o": 2, "one": 1, "zero": 0, "four": 4, "two": 2}.items()
} | {"z": np.int8(3)}
QONNX = "qonnx.custom_op.general"


def draw(kind: str, shape: tuple[int, ...]) -> Any:
    limits = find_limits(kind)
    drawn = np.random.default_rng(1).integers(int(limits.min), int(limits.max) + 1, shape)
    return drawn.astype(kind)


def make_graph(
    operator: str, weights: Any, widen: list[Any], more: Mapping[str, Any] = MappingProxyType({})
) -> bytes:
    """Return an operator on int8 with weights that the nodes ``widen`` convert to floats."""
    shape, data = SHAPES[operator]
    constants = {**GRID, **more, "w": weights}
    axis: dict[str, Any] = (
        {} if operator == "MatMul" else {"group": DEPTH if operator == "depthwise" else 1}
    )
    kind = "Conv" if operator == "depthwise" else operator
    if operator == "Gather":
        nodes = [*widen, node("Gather", ["f", "x"], ["y"])]
        inputs = [value("x", data, onnx.TensorProto.INT64)]
        outputs = [value("y", [*data, shape[1]])]
    else:
        nodes = [
            node("DequantizeLinear", ["x", "s", "z"], ["r"]),
            *widen,
            node(kind, ["r", "f"], ["a"], **axis),
            node("QuantizeLinear", ["a", "o", "z"], ["y"]),
        ]
        inputs = [value("x", data, onnx.TensorProto.INT8)]
        outputs = [value("y", ["n", *"abc"][: len(data)], onnx.TensorProto.INT8)]
    model = graph(nodes, inputs, outputs, constants, 25)
    model.opset_import.append(onnx.helper.make_opsetid(QONNX, 1))
    return bytes(model.SerializeToString())


def make_onnx(operator: str, kind: str) -> bytes:
    weights = draw(kind, SHAPES[operator][0])
    middle = np.asarray(8 if kind == "uint4" else 0).astype(kind)
    widen = node("DequantizeLinear", ["w", "s", "m"], ["f"])
    return make_graph(operator, weights, [widen], {"m": middle})


def make_qonnx(operator: str, bits: str) -> bytes:
    weights = np.random.default_rng(1).normal(0, 0.2, SHAPES[operator][0]).astype("float32")
    if bits == "one":
        widen = node("BipolarQuant", ["w", "s"], ["f"], domain=QONNX)
    else:
        widen = node("Quant", ["w", "s", "zero", bits], ["f"], domain=QONNX, signed=1, narrow=0)
    return make_graph(operator, weights, [widen])


def make_tflite(kind: str, stored: str) -> bytes:
    shapes: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
        "CONV_2D": ((1, 5, 5, 16), (CHANNELS, 3, 3, 16), windows(SAME)),
        "DEPTHWISE_CONV_2D": (
            (1, 5, 5, DEPTH), (1, 3, 3, DEPTH), windows(SAME) | {"depthMultiplier": 1},
        ),
        "FULLY_CONNECTED": ((1, DEPTH), (CHANNELS, DEPTH), {}),
    }  # fmt: skip
    builder = ModelBuilder()
    layer = Weighted(kind, *shapes[kind])
    add_weighted(builder, layer, "int8", stored, "int32", np.random.default_rng(6))
    return shaped(builder)


def make_blocks(_operator: str, width: str) -> bytes:
    """Return a MatMulNBits of ONNX Runtime with blocks of 16."""
    bits = int(GRID[width])
    random = np.random.default_rng(1)
    shape = (CHANNELS, DEPTH // 16, 16 * bits // 8)
    constants = {
        "w": random.integers(0, 256, shape, "uint8"),
        "t": random.random(CHANNELS * DEPTH // 16, "float32"),
    }
    stated: dict[str, Any] = {"K": DEPTH, "N": CHANNELS, "bits": bits, "block_size": 16}
    product = node("MatMulNBits", ["x", "w", "t"], ["y"], domain="com.microsoft", **stated)
    model = graph([product], [value("x", [3, DEPTH])], [value("y", [3, CHANNELS])], constants, 21)
    model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    return bytes(model.SerializeToString())


Case = tuple[Callable[[str, str], bytes], str, str, int]

CASES: tuple[Case, ...] = (
    (make_tflite, "CONV_2D", "int4", 4),
    (make_tflite, "DEPTHWISE_CONV_2D", "int4", 4),
    (make_tflite, "FULLY_CONNECTED", "int4", 4),
    (make_onnx, "Conv", "int4", 4),
    (make_onnx, "MatMul", "uint4", 4),
    (make_onnx, "Gather", "int2", 2),
    (make_qonnx, "Conv", "two", 2),
    (make_qonnx, "depthwise", "one", 1),
    (make_blocks, "MatMul", "four", 4),
    (make_blocks, "MatMul", "two", 2),
)

SUMMED = ("cortex-m4-bare",)
"""Cores whose convolutions and products have at least 4 bits per weight."""

ROOM = {"cortex-m55-bare": 16 / 9, "host": 20 / 9}
"""The stored bytes of depthwise convolutions, relative to 9 taps per channel.

On Cortex-M55, a channel has 16 taps. On x86-64, it has 10, and signs with a 0 need two bits.
"""


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case[0].__name__[5:]} {case[1]} {case[2]}"
)
def test_each_family_stores_packed_weights(case: Case) -> None:
    make, operator, kind, bits = case
    format_name = "tflite" if make is make_tflite else "onnx"
    data = make(operator, kind)
    module, interface = FORMATS[format_name].load().import_model(data, "test model", {})
    depthwise = "depthwise" in operator.lower()
    count = 9 * DEPTH if depthwise else CHANNELS * (144 if "C" in operator[:1] else DEPTH)
    for family in FAMILIES:
        mix = load_mix(parse_target("c"), load_platform(family), format_name)
        network = compile_network(module, interface, mix)
        is_summed = family in SUMMED and operator in ("Conv", "MatMul") and make is not make_blocks
        stored = max(bits, 4) if is_summed else bits
        room = ROOM.get(family, 16 / 9) if depthwise else 1  # a channel has whole bytes
        arrays = network.weights
        named = [a.nbytes for name, a in arrays.items() if name.endswith("_weights")]
        largest = max(named or [a.nbytes for a in arrays.values()])
        assert largest <= count * stored / 8 * room, family
