"""Forms for 64-bit Arm cores with NEON."""

from __future__ import annotations

from firmwright.devices.cpu.forms import floats, matrices, neon
from firmwright.devices.cpu.forms.conditions import INTEGERS, ROUNDED
from firmwright.devices.cpu.forms.form import Condition, Form
from firmwright.ir.layer import LayerKind

SMALL_WEIGHTS = Condition("weights of -127 or more", neon.has_small_weights)

FORMS = (
    Form(
        name="neon_conv2d",
        kind=LayerKind.CONV2D,
        features=frozenset({"neon"}),
        conditions=(INTEGERS, ROUNDED, SMALL_WEIGHTS),
        pack=neon.pack_convolution,
        cost=0.25,
        sentence="Eight bytes at once, of two products a sum of 16 bits.",
    ),
    Form(
        name="neon_depthwise_conv2d",
        kind=LayerKind.DEPTHWISE_CONV2D,
        features=frozenset({"neon"}),
        conditions=(INTEGERS, ROUNDED, SMALL_WEIGHTS),
        pack=neon.pack_depthwise,
        cost=0.6,
        sentence="Eight channels at once, of two taps a sum of 16 bits.",
    ),
    Form(
        name="neon_dense",
        kind=LayerKind.DENSE,
        features=frozenset({"neon"}),
        conditions=(INTEGERS, ROUNDED, SMALL_WEIGHTS),
        pack=neon.pack_convolution,
        cost=0.3,
        sentence="Eight bytes at once, of two products a sum of 16 bits.",
    ),
    Form(
        name="neon_matmul",
        kind=LayerKind.MATMUL,
        features=frozenset({"neon"}),
        conditions=(matrices.SCALED,),
        pack=matrices.pack_lanes,
        cost=0.5,
        sentence="Four rows by eight columns at once, of 16 bits.",
    ),
    Form(
        name="neon_float_conv2d",
        kind=LayerKind.FLOAT_CONV2D,
        features=frozenset({"neon"}),
        conditions=(),
        pack=lambda layer: floats.pack_convolution(layer, floats.NEON),
        cost=0.6,
        sentence="Floats in blocks of pixels by 16 channels.",
        in_place=("added",),
    ),
    Form(
        name="neon_float_depthwise_conv2d",
        kind=LayerKind.FLOAT_DEPTHWISE_CONV2D,
        features=frozenset({"neon"}),
        conditions=(floats.CHANNELS_LAST,),
        pack=lambda layer: floats.pack_depthwise(layer, floats.NEON),
        cost=0.8,
        sentence="16 channels at once.",
    ),
)
