"""Channels that are proven constant are removed, and no output bit changes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tvm
from tvm import relax

from firmwright.compile import compile_network
from firmwright.devices.cpu import CPU, CpuTarget
from firmwright.ir.operators import count_macs
from firmwright.ir.quant_params import QuantParams
from firmwright.ir.relax import main_bindings, static_shape
from firmwright.models.relax.importer import import_model
from firmwright.models.tflite import importer as tflite
from firmwright.recipe.target import parse_target
from firmwright.targets import Context, Device, find_rewrites
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import load_platform
from firmwright.transforms.optional import apply_transforms
from firmwright.verify.protocol import decode_outputs
from tests.lowering.test_tflite_networks import mirrored
from tests.networks.firmware import executed, lowered, random_samples, run_generated
from tests.networks.quantized_relax import RELU, SIGNED, Bias, Build, Net, Tensor, make_module

HOST = load_platform("host")
DEAD = -(2.0**20)
"""A bias that is larger than any sum."""

Sample = dict[str, npt.NDArray[Any]]


def bias(*dead: int, count: int = 5) -> Bias:
    return [DEAD if channel in dead else 50.0 * channel for channel in range(count)]


def plain(net: Net, x: Tensor, **second: Any) -> Tensor:
    return net.conv(net.conv(x, bias(1, 2)), bias(), **second)


def clamped(net: Net, x: Tensor, **second: Any) -> Tensor:
    """Two channels are the lowest integer, which is not zero."""
    return net.conv(net.conv(x, bias(1, 2), SIGNED), **{"bias": bias(), **second})


def separable(net: Net, x: Tensor) -> Tensor:
    x = net.conv(x, bias(0), window=3, padding=1)
    x = net.conv(x, bias(0, 2, 4), window=3, padding=1, depthwise=True)
    return net.conv(x, bias())


def clamped_separable(net: Net, x: Tensor) -> Tensor:
    """At the border of the image, the depthwise convolution changes a constant."""
    x = net.conv(x, bias(1, 2), SIGNED)
    return net.conv(net.conv(x, bias(2), window=3, padding=1, depthwise=True), bias())


def two_readers(net: Net, x: Tensor, **second: Any) -> tuple[Tensor, ...]:
    x = net.conv(x, bias(0, 3), SIGNED)
    return net.conv(x, bias()), net.conv(x, bias(count=3), **second)


def two_needs(net: Net, x: Tensor) -> tuple[Tensor, ...]:
    """One reader needs no constant, the other reads only channels 1 and 2."""
    x = net.conv(x, bias(0, 1), SIGNED)
    return net.conv(x, bias()), net.conv(x, bias(), SIGNED, 3, 1, depthwise=True)


def all_constant(net: Net, x: Tensor, **first: Any) -> Tensor:
    return net.conv(net.conv(x, bias(*range(5)), **first), bias())


def pooled(net: Net, x: Tensor) -> Tensor:
    x = net.pool(net.conv(x, bias(1, 4)), "max_pool2d", 2, padding=[1, 1])
    return net.dense(net.flatten(net.mean(x, x.grid, True)), bias(count=3))


def averaged(net: Net, x: Tensor) -> Tensor:
    x = net.pool(net.conv(x, bias(0), SIGNED), "avg_pool2d", 3, padding=[1, 1])
    x = net.dense(net.mean(x, QuantParams("int8", 0.15, -10), False), bias(2, count=3), RELU)
    return net.dense(x, bias())


def joined(net: Net, x: Tensor) -> Tensor:
    return net.conv(net.join(relax.op.add, net.conv(x, bias(1)), net.conv(x, bias(1))), bias())


def through_table(net: Net, x: Tensor) -> Tensor:
    x = net.conv(x, bias(1))
    return net.conv(net.store(relax.op.sigmoid(net.real(x)), RELU, x.layout), bias())


def returned(net: Net, x: Tensor) -> tuple[Tensor, ...]:
    x = net.conv(x, bias(1))
    return x, net.conv(x, bias())


def near_zero(net: Net, x: Tensor, steps: float, most: range) -> Tensor:
    """The largest sum of each channel is one of ``most``, which are near the lowest integer.

    A sum counts as many ``steps`` of the result's scale. The sums are maximal if all inputs are
    127. The next layer makes several steps of one.
    """
    biases = [float(sums - 4 * 127 * (127 - x.grid.zero_point)) for sums in most]
    grid = QuantParams("int8", x.grid.scale * 2**-7 / steps, -128)
    x = net.conv(x, biases, grid, scale=2**-7, weights=127)
    return net.conv(x, 5, QuantParams("int8", grid.scale * 0.1, 7))


def wrapping(net: Net, x: Tensor) -> Tensor:
    """The sums of a channel exceed 32 bits when they are shifted for scaling."""
    x = net.conv(x, [DEAD, 0.0], QuantParams("int8", 2.0**-13, -128), scale=8.0)
    return net.conv(x, bias())


CASES: dict[str, tuple[Build, list[tuple[int, int]]]] = {
    "plain": (plain, [(4, 3), (3, 5)]),
    "padded": (partial(plain, window=3, padding=1), [(4, 3), (3, 5)]),
    "clamped": (clamped, [(4, 3), (3, 5)]),
    "clamped in a window": (partial(clamped, window=3), [(4, 3), (3, 5)]),
    "clamped and padded": (partial(clamped, window=3, padding=1), [(4, 5), (5, 5)]),
    "no bias": (partial(clamped, bias=3, scale=0.004), [(4, 3), (3, 3)]),
    "separable": (separable, [(4, 2), (1, 2), (2, 5)]),
    "clamped separable": (clamped_separable, [(4, 4), (1, 4), (4, 5)]),
    "two readers": (two_readers, [(4, 3), (3, 5), (3, 3)]),
    "two readers, one padded": (
        partial(two_readers, window=3, padding=1),
        [(4, 5), (5, 5), (5, 3)],
    ),
    "two needs": (two_needs, [(4, 5), (5, 5), (1, 5)]),
    "all constant": (partial(all_constant, scale=0.004), [(4, 1), (1, 5)]),
    "all constant by channel": (all_constant, [(4, 2), (2, 5)]),
    "pooled": (pooled, [(4, 3), (3, 3)]),
    "averaged": (averaged, [(4, 4), (4, 2), (2, 5)]),
    "joined": (joined, [(4, 5), (4, 5), (5, 5)]),
    "through a table": (through_table, [(4, 5), (5, 5)]),
    "returned": (returned, [(4, 5), (5, 5)]),
    "wrapping": (wrapping, [(4, 2), (2, 5)]),
    "near zero": (partial(near_zero, steps=2**-9, most=range(-384, 512, 64)), [(4, 6), (6, 5)]),
    "rounded twice": (partial(near_zero, steps=2**-2, most=range(-2, 6)), [(4, 5), (5, 5)]),
}
"""Networks, and the channels that each layer reads and produces after the rewrite."""


def layers(module: tvm.IRModule) -> list[tuple[int, int]]:
    """Return the channels that the weights of each layer read and produce."""
    found = []
    for binding in main_bindings(module):
        if count_macs(binding.value):
            layout = str(getattr(binding.value.attrs, "kernel_layout", "IO"))
            shape = dict(zip(layout, static_shape(binding.value.args[1]), strict=True))
            found.append((shape["I"], shape["O"]))
    return found


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("name", CASES)
def test_what_is_left(name: str, layout: str) -> None:
    build, expected = CASES[name]
    module = make_module({name: build}, layout)
    assert layers(apply_transforms(module, {"RemoveConstantChannels"})) == expected


class PlainTarget(CpuTarget):
    rewrites: Sequence[str] = ()


def outputs(
    module: tvm.IRModule, target: CpuTarget, rounding: str, samples: list[Sample], folder: Path
) -> list[list[npt.NDArray[Any]]]:
    """Compile a module for this machine and run it."""
    imported, interface = import_model(tvm.ir.save_json(module).encode(), "test", {})
    network = compile_network(
        imported, interface, [Device(target, Context(HOST, rounding, {"specialize": "size"}))]
    )
    ran = executed(network, samples, folder / target.__class__.__name__, ("-O1",))
    return decode_outputs(ran.console, network.interface.outputs, len(samples), ran.exit_code)


def random_network(net: Net, x: Tensor) -> Tensor:
    for _ in range(3):
        grid = (RELU, SIGNED, QuantParams("int8", 0.03, -128))[net.random.integers(3)]
        window = int(net.random.choice([1, 3]))
        depthwise = bool(net.random.integers(2))
        count = x.channels if depthwise else int(net.random.integers(2, 9))
        biases = net.random.normal(0, 10 ** net.random.uniform(1, 5), count)
        x = net.conv(x, list(biases), grid, window, window // 2, depthwise)
    return net.dense(net.mean(x, x.grid, False), [0.0, 1.0])


def extreme_samples(names: list[str], shape: list[int]) -> list[Sample]:
    """Return random inputs, and inputs that reach the limits of many sums."""
    random = np.random.default_rng(3)
    values = [np.arange(-128, 128), np.array([-128, 127]), np.array([-128]), np.array([127])]
    chosen = [values[0]] * 3 + [values[1]] * 5 + values[2:]
    return [{name: random.choice(v, shape).astype("int8") for name in names} for v in chosen]


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(("layout", "rounding"), [("NHWC", "tflite"), ("NCHW", "onnx")])
def test_no_bit_changes(layout: str, rounding: str, tmp_path: Path) -> None:
    networks: dict[str, Build] = {name: build for name, (build, _) in CASES.items()}
    networks |= {f"random {number}": random_network for number in range(8)}
    module = make_module(networks, layout)
    assert layers(apply_transforms(module, {"RemoveConstantChannels"})) != layers(module)
    shape = [int(d) for d in module["main"].params[0].ty.shape]
    samples = extreme_samples(list(networks), shape)
    expected = outputs(module, PlainTarget(), rounding, samples, tmp_path)
    np.testing.assert_equal(outputs(module, CPU, rounding, samples, tmp_path), expected)


@pytest.mark.needs("gcc")
def test_half_of_mobilenet_is_left_and_equals_litert(tmp_path: Path) -> None:
    data = mirrored("vww_96_int8.tflite").read_bytes()
    kernels = lowered(data)
    assert kernels.partition.macs == 3_921_785  # of 7,489,664
    inputs = random_samples(data, 5, seed=4)
    expected = tflite.run_reference(data, inputs).outputs
    np.testing.assert_equal(run_generated(data, inputs, tmp_path), expected)


def test_what_other_devices_take_keeps_its_channels() -> None:
    def rewrites(target: str) -> set[str]:
        return find_rewrites(load_mix(parse_target(target), HOST, "tflite"))

    saving = {"RemoveConstantChannels", "SplitTransposedConvolutions", "UseChannelsLast"}
    assert rewrites("c") == {*saving, "MergePadLayer", "FoldBatchNorm", "UseIntegers"}
    assert rewrites("soma_dory, c") == {"UseIntegers"}
    assert {"RemoveConstantChannels", "UseChannelsLast"}.isdisjoint(rewrites("tidl, c"))
