"""Forms for Cortex-M cores with the DSP instructions of Armv7E-M."""

from __future__ import annotations

from firmwright.devices.cpu.forms import dsp, dsp_matrices, dsp_wide, matrices, wide
from firmwright.devices.cpu.forms.conditions import INTEGERS
from firmwright.devices.cpu.forms.form import Condition, Form, Tile
from firmwright.ir.layer import LayerKind

FORMS = (
    Form(
        name="dsp_depthwise_conv2d",
        kind=LayerKind.DEPTHWISE_CONV2D,
        features=frozenset({"armv7e-m-dsp"}),
        conditions=(
            INTEGERS,
            Condition(
                "a kernel of 3x3 without dilation",
                lambda layer: layer.kernel == (3, 3) and layer.dilation == (1, 1),
            ),
            Condition("strides of 1 or 2 along rows", lambda layer: layer.strides[1] <= 2),
            Condition(
                "an input of 3x3 or larger", lambda layer: min(layer.height, layer.width) >= 3
            ),
            Condition("a border of one", dsp.reads_one_border),
        ),
        pack=dsp.pack_depthwise,
        cost=2.0,
        sentence="Column by column, whose upper two products SMLAD makes at once.",
    ),
    Form(
        name="dsp_depthwise_conv2d_any",
        kind=LayerKind.DEPTHWISE_CONV2D,
        features=frozenset({"armv7e-m-dsp"}),
        conditions=(
            INTEGERS,
            Condition("four channels or more", lambda layer: layer.channels >= 4),
        ),
        pack=dsp.pack_any_depthwise,
        cost=4.5,
        sentence="Four channels at a time, tap by tap inside the input.",
    ),
    Form(
        name="dsp_dense",
        kind=LayerKind.DENSE,
        features=frozenset({"armv7e-m-dsp"}),
        conditions=(INTEGERS,),
        pack=dsp.pack_dense,
        cost=1.0,
        sentence="Two channels' weights lie in a halfword, so that SMLAD does four products.",
    ),
    Form(
        name="dsp_conv2d",
        kind=LayerKind.CONV2D,
        features=frozenset({"armv7e-m-dsp"}),
        conditions=(INTEGERS,),
        pack=dsp.pack_convolution,
        cost=1.0,
        sentence="Two channels' weights lie in a halfword, so that SMLAD does four products.",
        tiles=(Tile(3, 2), Tile(2, 2)),
    ),
    Form(
        name="dsp_wide_dense",
        kind=LayerKind.WIDE_DENSE,
        features=frozenset({"armv7e-m-dsp"}),
        conditions=(wide.SCALED, wide.NARROW_SUMS),
        pack=dsp_wide.pack_convolution,
        cost=1.5,
        sentence="SMLAD does two products of 16-bit inputs.",
    ),
    Form(
        name="dsp_wide_conv2d",
        kind=LayerKind.WIDE_CONV2D,
        features=frozenset({"armv7e-m-dsp"}),
        conditions=(wide.SCALED, wide.NARROW_SUMS),
        pack=dsp_wide.pack_convolution,
        cost=1.1,
        sentence="SMLAD does two products of 16-bit inputs.",
    ),
    Form(
        name="dsp_matmul",
        kind=LayerKind.MATMUL,
        features=frozenset({"armv7e-m-dsp"}),
        conditions=(matrices.SCALED,),
        pack=dsp_matrices.pack_product,
        cost=1.1,
        sentence="Four columns are widened without their zero point; SMLAD does two products.",
    ),
)
