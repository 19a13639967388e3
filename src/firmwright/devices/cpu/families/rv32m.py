"""Forms for 32-bit RISC-V cores that multiply in hardware."""

from __future__ import annotations

from firmwright.devices.cpu.forms import matrices, rv32, rv32_dense, rv32_depthwise, wide
from firmwright.devices.cpu.forms.conditions import INTEGERS
from firmwright.devices.cpu.forms.form import Condition, Form, Tile
from firmwright.ir.layer import LayerKind

TILES = (Tile(6, 2), Tile(4, 2), Tile(4, 3))
"""Three pairs of pixels by two channels fill the registers, and so do two pairs by three."""

FORMS = (
    Form(
        name="rv32m_conv2d",
        kind=LayerKind.CONV2D,
        features=frozenset({"rv32m"}),
        conditions=(
            INTEGERS,
            Condition("two output channels or more", lambda layer: layer.out_channels >= 2),
            Condition("four output pixels or more", lambda layer: layer.pixels >= 4),
        ),
        pack=rv32.pack_convolution,
        cost=2.2,
        sentence="Two pixels lie in a word, so that one multiplication does two of the layer's.",
        shared=True,
        tiles=TILES,
        fit_tile=rv32.fit_tile,
    ),
    Form(
        name="rv32m_depthwise_conv2d",
        kind=LayerKind.DEPTHWISE_CONV2D,
        features=frozenset({"rv32m"}),
        conditions=(INTEGERS,),
        pack=rv32_depthwise.pack_depthwise,
        cost=3.8,
        sentence="Sums roll along a channel that is copied between its borders.",
        tiles=rv32_depthwise.TILES,
        fit_tile=rv32_depthwise.fit_tile,
    ),
    Form(
        name="rv32m_dense",
        kind=LayerKind.DENSE,
        features=frozenset({"rv32m"}),
        conditions=(INTEGERS,),
        pack=rv32_dense.pack_dense,
        cost=2.3,
        sentence="Four channels lie in a word, of which one multiplication does two.",
        shared=True,
    ),
    Form(
        name="rv32m_wide_conv2d",
        kind=LayerKind.WIDE_CONV2D,
        features=frozenset({"rv32m"}),
        conditions=(wide.SCALED, wide.SUMS),
        pack=wide.pack_large_convolution,
        cost=2.6,
        sentence="Four pixels by four channels at once, of 16 bits.",
        headers=("multiply.h",),
    ),
    Form(
        name="rv32m_wide_dense",
        kind=LayerKind.WIDE_DENSE,
        features=frozenset({"rv32m"}),
        conditions=(wide.SCALED, wide.SUMS),
        pack=wide.pack_large_convolution,
        cost=3.3,
        sentence="Four channels at once, of 16 bits.",
        headers=("multiply.h",),
    ),
    Form(
        name="rv32m_matmul",
        kind=LayerKind.MATMUL,
        features=frozenset({"rv32m"}),
        conditions=(matrices.SCALED,),
        pack=matrices.pack_large_blocks,
        cost=2.7,
        sentence="Four rows by four columns at once, which are copied behind each other.",
        headers=("multiply.h",),
    ),
)
