"""An integer softmax asks float32 for rows whose results are halfway between two integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from firmwright.devices.cpu.forms import portable
from firmwright.devices.cpu.forms.softmax import find_numbers
from firmwright.emulator import run_firmware
from firmwright.ir.byte_layers import Softmax
from firmwright.toolchain import Build, load_platform, load_toolchain
from firmwright.verify.protocol import decode_outputs, encode_samples
from tests.devices.cpu.layers import make_network
from tests.devices.cpu.softmax_rows import evaluate_softmax
from tests.networks.firmware import SANITIZED, join_sources, link_network

FORM = next(form for form in portable.FORMS if form.name == "softmax")


def make_softmax(rows: int, length: int, scale: float) -> Softmax:
    return Softmax(
        rows=rows,
        length=length,
        input_dtype="int8",
        input_scale=float(np.float32(scale)),
        input_zero_point=-128,
        output_dtype="int8",
        scale=1 / 256,
        zero_point=-128,
        low=-128,
        high=127,
    )


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("scale", [0.0173, 0.11, 0.7])
def test_every_pair_and_ties_of_many(scale: float, tmp_path: Path, cache: Path) -> None:
    """All 65,536 pairs of bytes, rows of three, and 512 equal elements whose results are half
    steps."""
    layers = [make_softmax(2**16, 2, scale), make_softmax(5000, 3, scale), make_softmax(3, 512, 1)]
    network = make_network(layers, [FORM] * len(layers), shared=False)
    generator = np.random.default_rng(0)
    pairs = np.stack(np.meshgrid(*[np.arange(-128, 128)] * 2), -1).reshape(-1)
    rows = generator.integers(-128, 128, (5000, 3)).reshape(-1)
    given = [pairs, rows, np.full(3 * 512, -7)]
    sample = {
        port.name: values.astype("int8")
        for port, values in zip(network.interface.inputs, given, strict=True)
    }
    host = load_platform("host")
    build = Build(load_toolchain("gcc"), host, SANITIZED)
    elf = link_network(network, build, tmp_path, cache, list_files=join_sources)
    samples = encode_samples(network.interface.inputs, [sample])
    ran = run_firmware(elf, host, "native", samples, "network_run", 10**10)
    (found,) = decode_outputs(ran.console, network.interface.outputs, 1, ran.exit_code)
    for layer, values, result in zip(layers, given, found, strict=True):
        expected = evaluate_softmax(layer, values.astype("int8"))
        np.testing.assert_array_equal(result[: expected.size], expected)


def test_integers_err_by_less_than_they_say() -> None:
    """The integer results are within their stated bounds, and the bounds are narrow."""
    generator = np.random.default_rng(1)
    layer = make_softmax(2000, 64, 0.09)
    numbers = find_numbers(layer)
    assert numbers is not None
    data = generator.integers(-128, 128, (layer.rows, layer.length))
    distances = (data.max(1, keepdims=True) - data) * np.float64(layer.input_scale)
    table = np.rint(np.exp(-distances) * 2.0**numbers.exponent).astype("int64")
    factors = numbers.numerator // table.sum(1, keepdims=True)
    places = (table.astype(object) * factors >> 32).astype("int64")
    real = (data + 128).astype("float32") * np.float32(layer.input_scale)
    exponentials = np.exp(real - real.max(1, keepdims=True))
    sums = np.cumsum(exponentials, axis=1, dtype="float32")[:, -1:]
    steps = (exponentials / sums / np.float32(layer.scale)).astype("float64")
    errors = np.abs(places - steps * 2.0**numbers.point)
    bounds = 4 + (places >> numbers.error)
    assert (errors <= bounds).all()
    assert (bounds * 2).mean() < 2.0**numbers.point / 1000
