"""Forms for 64-bit Arm cores with dot products, and with products of matrices (i8mm)."""

from __future__ import annotations

from firmwright.devices.cpu.forms import dot
from firmwright.devices.cpu.forms.conditions import INTEGERS, ROUNDED
from firmwright.devices.cpu.forms.form import Condition, Form
from firmwright.ir.layer import LayerKind

FORMS = (
    Form(
        name="mmla_conv2d",
        kind=LayerKind.CONV2D,
        features=frozenset({"i8mm"}),
        conditions=(
            INTEGERS,
            ROUNDED,
            Condition("two output pixels in a row", lambda layer: layer.out_width >= 2),
        ),
        pack=dot.pack_matrices,
        cost=0.06,
        sentence="SMMLA makes 32 products of two pixels and two channels.",
    ),
    Form(
        name="dot_conv2d",
        kind=LayerKind.CONV2D,
        features=frozenset({"dotprod"}),
        conditions=(INTEGERS, ROUNDED),
        pack=dot.pack_convolution,
        cost=0.1,
        sentence="SDOT makes 16 products, four of each of four channels.",
    ),
    Form(
        name="dot_depthwise_conv2d",
        kind=LayerKind.DEPTHWISE_CONV2D,
        features=frozenset({"dotprod"}),
        conditions=(
            INTEGERS,
            ROUNDED,
            Condition("a kernel of at most four rows", lambda layer: layer.kernel[0] <= 4),
        ),
        pack=dot.pack_depthwise,
        cost=0.4,
        sentence="Column by column: SDOT makes the products of four channels with their rows.",
    ),
    Form(
        name="dot_dense",
        kind=LayerKind.DENSE,
        features=frozenset({"dotprod"}),
        conditions=(INTEGERS, ROUNDED),
        pack=dot.pack_convolution,
        cost=0.11,
        sentence="SDOT makes 16 products, four of each of four channels.",
    ),
)
