"""Compares the C of random graphs of whole numbers in float32 with numpy.

    python -m tests.transforms.random_whole_floats 100 --first 20000

The graphs have the forms of quantlab, NEMO and diana-quantlib: requantizations per channel, sums
without a clip, and divisors of shape (), [1], (C, 1, 1) and (1, C, 1, 1).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from tests.networks.firmware import run_generated
from tests.networks.whole_floats import WholeFloats, add_unclipped, residual_block

Array = npt.NDArray[Any]
Random = np.random.Generator


def convolve(note: Mapping[str, Any], data: Array, weights: Array, bias: Array) -> Array:
    """Return the convolution in float64, which is exact for these graphs, as float32."""
    (up, left, down, right), groups = note["pads"], note["group"]
    step, across = note.get("strides", (1, 1))
    padded = np.pad(data.astype("float64"), ((0, 0), (0, 0), (up, down), (left, right)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weights.shape[2:], (2, 3))
    windows = windows[:, :, ::step, ::across]
    split = np.split(windows, groups, 1), np.split(weights, groups)
    parts = [np.einsum("nchwij,ocij->nohw", w, f) for w, f in zip(*split, strict=True)]
    return (np.concatenate(parts, 1) + bias[:, None, None]).astype("float32")


def divide(a: Array, b: Array) -> Array:
    """Return the quotient; ONNX's quotient of integers is rounded towards zero."""
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    return np.asarray(np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b)))


OPERATORS: dict[str, Callable[..., Array]] = {
    "Add": np.add, "Mul": np.multiply, "Div": divide, "Floor": np.floor, "Clip": np.clip,
    "Max": np.maximum, "Min": np.minimum,
}  # fmt: skip


def evaluate(model: onnx.ModelProto, sample: Array) -> Array:
    """Return the result of a graph of :class:`WholeFloats`, computed by numpy."""
    values = {c.name: onnx.numpy_helper.to_array(c) for c in model.graph.initializer}
    values["input"] = sample
    for made in model.graph.node:
        operands = [values[name] for name in made.input]
        note = {a.name: onnx.helper.get_attribute_value(a) for a in made.attribute}
        if made.op_type == "Conv":
            result = convolve(note, *operands)
        elif made.op_type == "Cast":
            result = operands[0].astype(onnx.helper.tensor_dtype_to_np_dtype(note["to"]))
        else:
            result = OPERATORS[made.op_type](*operands)
        values[made.output[0]] = result
    return values[model.graph.output[0].name]


def end_in_sum(network: WholeFloats, random: Random) -> None:
    """Append two layers and the sum of their results; half of the sums are divided by 2."""
    channels = network.channels
    start = network.conv(channels).shift(2.0**8, (-128, 127)).x
    network.conv(channels, largest=20).shift(2.0**6, (0, 255)).add("Add", start)
    if random.random() < 0.5:
        shapes: list[list[int]] = [[], [1], [1, channels, 1, 1], [channels, 1, 1]]
        network.divide(np.full(shapes[int(random.integers(4))], 2.0))


def join_blocks(network: WholeFloats, random: Random) -> None:
    network.conv(network.channels, largest=30).scale(2**-8, 12)
    add_unclipped(network, network.channels)
    add_unclipped(network, network.channels, float(random.choice([1, 16])))


def join_block(network: WholeFloats, random: Random) -> None:
    network.conv(network.channels, largest=30).shift(2.0**9, (0, 255))
    add_unclipped(network, network.channels, float(random.choice([1, 2, 8, 32])))


def draw_network(seed: int) -> WholeFloats:
    random = np.random.default_rng(seed)
    channels, rows = int(random.integers(1, 9)), int(random.integers(5, 11))
    columns = rows + int(random.integers(3))
    network = WholeFloats((1, channels, rows, columns), seed=seed)

    def wide(**bounds: int) -> WholeFloats:
        return network.conv(int(random.integers(1, 12)), int(random.choice([1, 3, 5])), **bounds)

    blocks: list[Callable[[], object]] = [
        lambda: wide().scale(2**-9, int(random.integers(10, 18))),
        lambda: network.conv(network.channels, groups=network.channels).scale(2**-8, 14),
        lambda: wide(largest=40).truncate(2**-9, 54, 2**21 - 1),
        lambda: residual_block(network, network.channels),
        *(partial(block, network, random) for block in (join_block, join_blocks, end_in_sum)),
    ]
    for _ in range(int(random.integers(1, 4))):
        blocks[random.integers(len(blocks))]()
    bound, steps = int(random.choice([7, 40, 127])), [int(random.integers(1, 3))] * 2
    network.conv(int(random.integers(1, 9)), largest=bound, strides=steps)
    return network.shift(2.0**8, (0, 255)) if random.random() < 0.6 else network.scale(2**-8, 13)


def find_fault(seed: int, folder: Path) -> str:
    """Return the first difference between the C of a random graph and numpy, or ''."""
    network = draw_network(seed)
    model = network.model()
    shape = [d.dim_value for d in network.inputs[0].type.tensor_type.shape.dim]
    sample = np.random.default_rng(seed).normal(0, 1, shape).astype("float32")
    expected = evaluate(model, sample)
    data = model.SerializeToString()
    found = run_generated(data, [{"input": sample}], folder, format_name="onnx")[0][0]
    differing = np.argwhere(found != expected)
    return f"{len(differing)} of {expected.size} values differ" if len(differing) else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, help="the number of random graphs")
    parser.add_argument("--first", type=int, default=20000, help="the seed of the first graph")
    arguments = parser.parse_args()
    wrong = 0
    for seed in range(arguments.first, arguments.first + arguments.count):
        with TemporaryDirectory() as folder:
            fault = find_fault(seed, Path(folder))
        wrong += bool(fault)
        print(f"graph {seed}: {fault or 'exact'}", flush=True)
    print(f"{arguments.count} graphs, {wrong} wrong")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
