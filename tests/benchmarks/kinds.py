"""Count the instructions of the kinds of layers next to convolutions and dense layers.

    python -m tests.benchmarks.kinds [--platform rv32-bare]

Two networks have one operator of each kind: a QDQ graph in ONNX's rounding, and a TFLite model.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from firmwright.emulator import run_firmware
from firmwright.ir.tensors import Tensor
from firmwright.toolchain import Build, load_toolchain
from firmwright.verify.protocol import encode_samples
from tests.benchmarks.yolo import load_large_platform, name_functions
from tests.networks.firmware import link_network, lowered
from tests.networks.qdq_graphs import Graph
from tests.networks.qdq_reference import F32, Array, Grid
from tests.networks.tflite_models import ModelBuilder
from tests.networks.tflite_operators import SAME, shaped
from tests.networks.tflite_weighted import Weighted, add_weighted, windows

RANDOM = np.random.default_rng(0)
SOURCE, OTHER = Grid("int8", F32(0.05), 3), Grid("int8", F32(0.03), -7)
WEIGHTS = F32(0.00973)


@dataclass(frozen=True)
class Kind:
    """An ONNX operator of ``inputs``, then constant ``weights``, with a result ``scale``."""

    name: str
    operator: str
    inputs: tuple[tuple[int, ...], ...]
    scale: float = 0.0613
    weights: tuple[int, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    axes: tuple[int, ...] = ()


QDQ = (
    Kind("global average of 8x8", "GlobalAveragePool", ((1, 64, 8, 8),)),
    Kind("average of 2x2", "AveragePool", ((1, 16, 16, 16),),
         options={"kernel_shape": [2, 2], "strides": [2, 2]}),
    Kind("average of 3x3, padded", "AveragePool", ((1, 16, 16, 16),),
         options={"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    Kind("mean of 8x8", "ReduceMean", ((1, 64, 8, 8),), axes=(2, 3)),
    Kind("mean of rows", "ReduceMean", ((1, 16, 64),), axes=(-1,)),
    Kind("maximum of 2x2", "MaxPool", ((1, 16, 16, 16),),
         options={"kernel_shape": [2, 2], "strides": [2, 2]}),
    Kind("product of two tensors", "Mul", ((1, 16, 16, 16), (1, 16, 16, 16))),
    Kind("product with a row", "Mul", ((1, 16, 16, 16), (1, 1, 1, 16))),
    Kind("difference of two tensors", "Sub", ((1, 16, 16, 16), (1, 16, 16, 16)), 0.0913),
    Kind("softmax of 16", "Softmax", ((1, 4, 16, 16),), 1 / 256, options={"axis": -1}),
    Kind("matrices of two tensors", "MatMul", ((1, 4, 16, 32), (1, 4, 32, 16)), 0.2917),
    Kind("matrix, 16 rows", "MatMul", ((1, 16, 64),), 0.3, (64, 64)),
    Kind("conv1d", "Conv", ((1, 16, 64),), 0.3, (16, 16, 3), {"pads": [1, 1]}),
    Kind("transposed, 2x2 / 2", "ConvTranspose", ((1, 16, 8, 8),), 0.3, (16, 8, 2, 2),
         {"strides": [2, 2]}),
    Kind("transposed, 4x4 / 2", "ConvTranspose", ((1, 16, 8, 8),), 0.3, (16, 8, 4, 4),
         {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    Kind("transposed 1-D, 4 / 2", "ConvTranspose", ((1, 16, 32),), 0.3, (16, 8, 4),
         {"strides": [2], "pads": [1, 1]}),
    Kind("conv3d", "Conv", ((1, 4, 8, 8, 8),), 0.3, (8, 4, 3, 3, 3), {"pads": [1] * 6}),
)  # fmt: skip

SIXTEEN_BITS = (
    Weighted("CONV_2D", (1, 16, 16, 16), (16, 3, 3, 16), windows(SAME)),
    Weighted("DEPTHWISE_CONV_2D", (1, 16, 16, 16), (1, 3, 3, 16),
             windows(SAME) | {"depthMultiplier": 1}),
    Weighted("FULLY_CONNECTED", (1, 256), (64, 256), {}, per_channel=False),
)  # fmt: skip
TRANSPOSED = Weighted(
    "TRANSPOSE_CONV", (1, 8, 8, 16), (8, 4, 4, 16),
    {"padding": SAME, "strideW": 2, "strideH": 2}, result=(1, 16, 16, 8),
)  # fmt: skip


def make_qdq() -> tuple[bytes, dict[str, str]]:
    """Return the QDQ graph, and the names of its nodes."""
    graph, names = Graph(), {}
    for kind in QDQ:
        grids = (SOURCE, OTHER)
        inputs = [graph.input(s, g)[1] for s, g in zip(kind.inputs, grids, strict=False)]
        if kind.weights:
            stored = RANDOM.integers(-127, 128, kind.weights, "int8")
            inputs.append(graph.weights(stored, np.array(WEIGHTS), 0, 0))
        if kind.axes:
            inputs.append(graph.constant(np.array(kind.axes)))
        node = graph.node(kind.operator, inputs, **kind.options)
        names[node] = kind.name
        graph.output(node, Grid("int8", F32(kind.scale), 5), lambda *_: np.zeros(0))
    add_conversions(graph)
    return graph.build(), names


def add_conversions(graph: Graph) -> None:
    """Quantize a float input, and return a float output."""
    shape = (1, 16, 16, 16)
    graph.inputs.append(helper.make_tensor_value_info("real", TensorProto.FLOAT, shape))
    graph.output("real", SOURCE, lambda *_: np.zeros(0))
    _, result = graph.input(shape, SOURCE)
    graph.outputs.append(helper.make_tensor_value_info(result, TensorProto.FLOAT, shape))


def make_tflite() -> bytes:
    builder = ModelBuilder()
    for case in SIXTEEN_BITS:
        add_weighted(builder, case, "int16", "int8", "int64", RANDOM)
    add_weighted(builder, TRANSPOSED, "int8", "int8", "int32", RANDOM)
    return shaped(builder)


def draw(port: Tensor) -> Array:
    """Return random bytes, or floats of which some are out of range."""
    if port.dtype == "float32":
        return RANDOM.normal(0, 3, port.shape).astype("float32")
    limits = np.iinfo(port.dtype)
    return RANDOM.integers(limits.min, limits.max + 1, port.shape, port.dtype)


def count(data: bytes, names: dict[str, str], platform_name: str, folder: Path) -> None:
    """Print a row for each region of a network."""
    network = lowered(data, platform=platform_name)
    platform = load_large_platform(platform_name)
    build = Build(load_toolchain("zig"), platform)
    elf = link_network(network, build, folder, folder / "cache")
    sample = {port.name: draw(port) for port in network.interface.inputs}
    kernels = network.kernels.kernels
    ran = run_firmware(
        elf, platform, platform.emulators[0], encode_samples(network.interface.inputs, [sample]),
        "network_run", 10**11, tuple(name_functions(network).values()),
    )  # fmt: skip
    counts = dict(zip(name_functions(network), ran.by_part, strict=True))
    for kernel in kernels:
        region = next(r for r in network.partition.regions if r.name == kernel.region)
        called = next((names[s] for s in region.sources if s in names), region.anchor)
        counted, note = counts[kernel.region], kernel.note or ""
        form = note.split(":")[0].removeprefix("Form ") if note.startswith("Form ") else "loops"
        results = kernel.outputs[0].elements
        each = f"{counted / region.macs:.2f}" if region.macs else ""
        print(f"| {called} | {form} | {results:,} | {counted:,} | {counted / results:.1f} "
              f"| {each} |")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--platform", default="rv32-bare")
    options = parser.parse_args()
    print("| kind | form | results | instructions | each | a MAC |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        data, names = make_qdq()
        count(data, names, options.platform, Path(folder, "qdq"))
        count(make_tflite(), {}, options.platform, Path(folder, "tflite"))


if __name__ == "__main__":
    main()
