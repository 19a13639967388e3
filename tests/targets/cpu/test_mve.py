"""Where Helium's gathered loads end, what is large takes a form of the DSP instructions."""

from __future__ import annotations

import numpy as np
import pytest

from firmwright.ir.layer import LayerKind
from firmwright.targets.cpu.forms.form import choose
from firmwright.targets.cpu.table import FORMS
from firmwright.toolchain import load_platform
from tests.targets.cpu.layers import make_layer
from tests.targets.cpu.shapes import Shape

SHAPES = {
    "reaches 255 bytes": (Shape(4, 4, 3, 127, (3, 2), padding=(0, 0, 0, 0)), True),
    "reaches 256 bytes": (Shape(4, 4, 3, 128, (3, 1), padding=(0, 0, 0, 0)), False),
    "steps below 64 KiB": (Shape(9362, 9362, 1, 1), True),
    "steps of 64 KiB": (Shape(9363, 9363, 1, 1), False),
}


@pytest.mark.parametrize(("shape", "fits"), SHAPES.values(), ids=SHAPES)
def test_what_gathered_loads_reach(shape: Shape, fits: bool) -> None:
    layer = make_layer(LayerKind.DEPTHWISE_CONV2D, shape, np.random.default_rng(0))
    found = choose(layer, load_platform("cortex-m55-bare").features, FORMS).form
    assert found
    assert found.name == ("mve_depthwise_conv2d" if fits else "dsp_depthwise_conv2d_any")
