"""Two networks of MLPerf Tiny run on the emulated vectors and engines of the C7x."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from firmwright.data.samples import random_samples
from firmwright.devices.c7x.cost import Core
from firmwright.devices.c7x.forms import cut, make_forms
from firmwright.devices.cpu.forms.form import choose
from firmwright.ir.layer import LayerKind
from firmwright.models import FORMATS
from firmwright.verify.protocol import decode_outputs
from tests.devices.cpu.layers import make_layer
from tests.devices.cpu.shapes import Shape
from tests.lowering.test_tflite_networks import mirrored
from tests.networks.firmware import executed, lowered

RESNET8 = {"c7x_conv2d": 9, "c7x_add": 3, "c7x_dense": 1}
MOBILENET = {"c7x_conv2d": 14, "c7x_depthwise_conv2d": 13, "c7x_dense": 1}


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    ("name", "forms"),
    [("pretrainedResnet_quant.tflite", RESNET8), ("vww_96_int8.tflite", MOBILENET)],
    ids=["resnet8", "mobilenet"],
)
def test_a_network_is_exact(name: str, forms: dict[str, int], tmp_path: Path) -> None:
    data = mirrored(name).read_bytes()
    network = lowered(data, target="c7x")
    notes = [kernel.note or "" for kernel in network.kernels.kernels]
    assert Counter(n.split(":")[0][5:] for n in notes if n.startswith("Form ")) == forms
    importer = FORMATS["tflite"].load()
    interface = importer.import_model(data, name, {})[1]
    samples = [dict(s) for s in random_samples(interface.inputs, 2, 1)]
    ran = executed(network, samples, tmp_path, ("-O2",))
    found = decode_outputs(ran.console, network.interface.outputs, 2, ran.exit_code)
    for ours, theirs in zip(found, importer.run_reference(data, samples).outputs, strict=True):
        for array, expected in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(array, expected)


def test_the_convolution_of_the_documentation() -> None:
    """docs/reference/c7x.md states the modelled cycles for 64 channels of 56x56 pixels, 3x3."""
    shape = Shape(64, 64, 56, 56, (3, 3), padding=(1, 1, 1, 1))
    layer = make_layer(LayerKind.CONV2D, shape, np.random.default_rng(0))
    cycles = {vector: cut(Core(vector, 229376), layer).compute_cycles for vector in (32, 64)}
    page = (Path(__file__).parents[3] / "docs/reference/c7x.md").read_text(encoding="utf-8")
    assert all(f"{count / 1e6:.2f} million" in page for count in cycles.values()), cycles


def test_why_a_layer_has_no_form_is_said() -> None:
    shape = Shape(64, 64, 8, 8, (3, 3), dilation=(1, 2))
    layer = make_layer(LayerKind.CONV2D, shape, np.random.default_rng(0))
    chosen = choose(layer, (), make_forms(Core(32, 20000)))
    assert chosen.form is None
    assert chosen.refusals == (
        "c7x_conv2d needs rows and weights of 16 channels that fit 20,000 bytes; "
        "a kernel without gaps in its rows",
    )
