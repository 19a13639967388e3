"""Forms for every core."""

from __future__ import annotations

from firmwright.ir.layer import LayerKind
from firmwright.targets.cpu.forms import addition, floats, matrices, plain, product, rv32_depthwise
from firmwright.targets.cpu.forms.conditions import FACTORS, INTEGERS, MULTIPLIER
from firmwright.targets.cpu.forms.form import Form

FORMS = (
    Form(
        name="portable_conv2d",
        kind=LayerKind.CONV2D,
        features=frozenset(),
        conditions=(INTEGERS,),
        pack=plain.pack_convolution,
        cost=2.5,
        sentence="Two pixels by four channels at once.",
        headers=("multiply.h",),
    ),
    Form(
        name="portable_grouped_conv2d",
        kind=LayerKind.GROUPED_CONV2D,
        features=frozenset(),
        conditions=(INTEGERS,),
        pack=plain.pack_convolution,
        cost=3.0,
        sentence="Two pixels by four channels of a group at once.",
        headers=("multiply.h",),
    ),
    Form(
        name="portable_depthwise_conv2d",
        kind=LayerKind.DEPTHWISE_CONV2D,
        features=frozenset(),
        conditions=(INTEGERS,),
        pack=rv32_depthwise.pack_depthwise,
        cost=4.0,
        sentence="Sums roll along a channel that is copied between its borders.",
        headers=("multiply.h",),
    ),
    Form(
        name="portable_dense",
        kind=LayerKind.DENSE,
        features=frozenset(),
        conditions=(INTEGERS,),
        pack=plain.pack_convolution,
        cost=3.0,
        sentence="Four channels at once.",
        headers=("multiply.h",),
    ),
    Form(
        name="add",
        kind=LayerKind.ADD,
        features=frozenset(),
        conditions=(FACTORS,),
        pack=addition.pack_addition,
        cost=0.0,
        sentence="Two multiplications and a shift, proven for every pair of bytes.",
        in_place=("input_0", "input_1"),
    ),
    Form(
        name="multiply",
        kind=LayerKind.MULTIPLY,
        features=frozenset(),
        conditions=(MULTIPLIER,),
        pack=product.pack_product,
        cost=0.0,
        sentence="A multiplication and a shift, proven for every pair of bytes.",
        in_place=("input_0", "input_1"),
    ),
    Form(
        name="portable_matmul",
        kind=LayerKind.MATMUL,
        features=frozenset(),
        conditions=(matrices.SCALED,),
        pack=matrices.pack_blocks,
        cost=3.0,
        sentence="Two rows by four columns at once, which are copied behind each other.",
        headers=("multiply.h",),
    ),
    Form(
        name="float_conv2d",
        kind=LayerKind.FLOAT_CONV2D,
        features=frozenset(),
        conditions=(),
        pack=lambda layer: floats.pack_convolution(layer, floats.PLAIN),
        cost=2.7,
        sentence="Floats in blocks of four pixels by four channels.",
        in_place=("added",),
    ),
    Form(
        name="float_depthwise_conv2d",
        kind=LayerKind.FLOAT_DEPTHWISE_CONV2D,
        features=frozenset(),
        conditions=(floats.CHANNELS_LAST,),
        pack=lambda layer: floats.pack_depthwise(layer, floats.PLAIN),
        cost=4.5,
        sentence="Four channels at once.",
    ),
)
