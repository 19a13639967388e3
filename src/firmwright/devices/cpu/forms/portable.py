"""Defines the forms that run on every core."""

from __future__ import annotations

from firmwright.devices.cpu.forms import (
    addition,
    byte_functions,
    floats,
    matrices,
    plain,
    plane,
    resize,
    softmax,
    wide,
)
from firmwright.devices.cpu.forms.addition import FACTORS, MULTIPLIER
from firmwright.devices.cpu.forms.form import BlockCosts, Form, Tile, shrink_tile
from firmwright.devices.cpu.forms.requantize import INTEGERS
from firmwright.ir.layer import Layer

TILES = (
    Tile(plain.PIXELS, plain.CHANNELS),
    Tile(plain.LARGE_BLOCK, plain.LARGE_BLOCK),
    Tile(2, 2),
)


def fit_block(layer: Layer, tile: Tile) -> Tile:
    """Return a tile for a layer. A single channel needs few registers, so its tile is longer."""
    longer = Tile(plain.LARGE_BLOCK, 1) if layer.out_channels == 1 else tile
    return shrink_tile(layer, longer)


DENSE_ON_RV32 = BlockCosts(gather=0, read=2.12, load=0, product=3.09, result=23.5, block=6.6)
"""The cycles of ``portable_dense`` according to the table of CV32E40P, fitted to 40 layers."""

FORMS = (
    Form(
        name="portable_conv2d",
        conditions=(INTEGERS,),
        pack=plain.pack_convolution,
        cost=2.5,
        sentence="Two pixels by four channels at once.",
        headers=("multiply.h",),
        tiles=TILES,
        fit_tile=fit_block,
    ),
    Form(
        name="portable_grouped_conv2d",
        conditions=(INTEGERS,),
        pack=plain.pack_convolution,
        cost=3.0,
        sentence="Two pixels by four channels of a group at once.",
        headers=("multiply.h",),
        tiles=TILES,
    ),
    Form(
        name="portable_depthwise_conv2d",
        conditions=(INTEGERS,),
        pack=plane.pack_depthwise,
        cost=4.0,
        sentence="Sums roll along a channel that is copied between its borders.",
        headers=("multiply.h",),
        tiles=plane.TILES,
        fit_tile=plane.fit_tile,
    ),
    Form(
        name="portable_dense",
        conditions=(INTEGERS,),
        pack=plain.pack_convolution,
        cost=3.0,
        sentence="Four channels at once.",
        headers=("multiply.h",),
        tiles=TILES,
        cycles={"rv32m": DENSE_ON_RV32.count_cycles},
    ),
    Form(
        name="add",
        conditions=(FACTORS,),
        pack=lambda layer: addition.omit_limits(layer, addition.pack_addition(layer)),
        sentence="Two multiplications and a shift, proven for every pair of bytes.",
        in_place=("input_0", "input_1"),
        shared=True,
    ),
    Form(
        name="multiply",
        conditions=(MULTIPLIER,),
        pack=addition.pack_product,
        sentence="A multiplication and one or two shifts, proven for every pair of bytes.",
        in_place=("input_0", "input_1"),
        shared=True,
    ),
    Form(
        name="line",
        conditions=(byte_functions.LINEAR,),
        pack=lambda layer: addition.omit_limits(layer, byte_functions.pack_line(layer)),
        sentence="A multiplication and a shift, proven for every byte.",
        in_place=("input",),
        shared=True,
    ),
    Form(
        name="sigmoid",
        conditions=(byte_functions.REPEATED, byte_functions.ON_CURVE),
        pack=byte_functions.pack_sigmoid,
        sentence="Polynomials that all steps of a recurrent layer share, proven for every byte.",
        in_place=("input",),
        shared=True,
    ),
    Form(
        name="portable_wide_conv2d",
        conditions=(wide.SCALED, wide.SUMS),
        pack=plain.pack_convolution,
        cost=3.0,
        sentence="Two pixels by four channels at once, of 16 bits.",
        headers=("multiply.h",),
        tiles=TILES,
    ),
    Form(
        name="portable_wide_depthwise_conv2d",
        conditions=(wide.SCALED, wide.NARROW_SUMS),
        pack=plane.pack_depthwise,
        cost=4.0,
        sentence="Sums roll along a channel that is copied between its borders.",
        tiles=plane.TILES,
        fit_tile=plane.fit_tile,
    ),
    Form(
        name="portable_wide_dense",
        conditions=(wide.SCALED, wide.SUMS),
        pack=plain.pack_convolution,
        cost=3.0,
        sentence="Four channels at once, of 16 bits.",
        headers=("multiply.h",),
        tiles=TILES,
    ),
    Form(
        name="portable_matmul",
        conditions=(matrices.SCALED,),
        pack=matrices.pack_blocks,
        cost=3.0,
        sentence="Two rows by four columns at once, which are copied one after the other.",
        headers=("multiply.h",),
    ),
    Form(
        name="softmax",
        conditions=(softmax.BOUNDED,),
        pack=softmax.pack_softmax,
        sentence="Integers with a bound of their error, or float32 if the error could matter.",
    ),
    Form(
        name="fixed_softmax",
        pack=softmax.pack_fixed_softmax,
        sentence="A table of exponentials, and a reciprocal per row.",
    ),
    Form(
        name="resize",
        pack=resize.pack_resize,
        sentence="The C adds two weighted rows, then two weighted columns of the sums.",
    ),
    Form(
        name="float_conv2d",
        pack=lambda layer: floats.pack_convolution(layer, floats.PLAIN),
        cost=2.7,
        sentence="Floats in blocks of four pixels by four channels.",
        in_place=("added",),
    ),
    Form(
        name="float_depthwise_conv2d",
        conditions=(floats.CHANNELS_LAST,),
        pack=lambda layer: floats.pack_depthwise(layer, floats.PLAIN),
        cost=4.5,
        sentence="Four channels at once.",
    ),
)
