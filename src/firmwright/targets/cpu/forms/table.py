"""The forms of the device ``c``, by kind of layer; of a kind, the first that fits is taken."""

from __future__ import annotations

from firmwright.ir.layer import LayerKind
from firmwright.targets.cpu.forms import (
    addition,
    dsp,
    neon,
    rv32,
    rv32_dense,
    rv32_depthwise,
    x64,
)
from firmwright.targets.cpu.forms.form import Condition, Form
from firmwright.targets.cpu.forms.requantize import fits_fixed_point, fits_integers

FIXED_POINT = Condition(
    "sums below 2^29, scaled in fixed point by factors of 2^-22 to 1/2", fits_fixed_point
)

INTEGERS = Condition(
    "sums below 2^29, or 2^24 where they are scaled in float32, and factors of 2^-22 to 1/2",
    fits_integers,
)

FACTORS = Condition(
    "scales for which two multiplications and a shift are exact for all bytes",
    lambda layer: addition.find_factors(layer) is not None,
)

SMALL_WEIGHTS = Condition("weights of -127 or more", neon.has_small_weights)

FORMS: tuple[Form, ...] = (
    Form(
        name="x64_add",
        kind=LayerKind.ADD,
        features=frozenset({"x86-64"}),
        conditions=(FACTORS,),
        pack=addition.pack_addition,
        cost=0.0,
        sentence="Two multiplications and a shift, of eight elements at once where there is AVX2.",
    ),
    Form(
        name="add",
        kind=LayerKind.ADD,
        features=frozenset(),
        conditions=(FACTORS,),
        pack=addition.pack_addition,
        cost=0.0,
        sentence="Two multiplications and a shift, proven for every pair of bytes.",
    ),
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
    ),
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
    ),
    Form(
        name="rv32m_depthwise_conv2d",
        kind=LayerKind.DEPTHWISE_CONV2D,
        features=frozenset({"rv32m"}),
        conditions=(INTEGERS,),
        pack=rv32_depthwise.pack_depthwise,
        cost=3.8,
        sentence="Sums roll along a channel that is copied between its borders.",
    ),
    Form(
        name="rv32m_dense",
        kind=LayerKind.DENSE,
        features=frozenset({"rv32m"}),
        conditions=(INTEGERS,),
        pack=rv32_dense.pack_dense,
        cost=2.3,
        sentence="Four channels lie in a word, of which one multiplication does two.",
    ),
    Form(
        name="x64_conv2d",
        kind=LayerKind.CONV2D,
        features=frozenset({"x86-64"}),
        conditions=(INTEGERS,),
        pack=x64.pack_convolution,
        cost=0.1,
        sentence="AVX-512's products of four bytes, or AVX2's of two words, as the machine has.",
    ),
    Form(
        name="x64_depthwise_conv2d",
        kind=LayerKind.DEPTHWISE_CONV2D,
        features=frozenset({"x86-64"}),
        conditions=(INTEGERS,),
        pack=x64.pack_depthwise,
        cost=0.5,
        sentence="Two taps of 16 channels at once, by AVX-512 or AVX2, as the machine has.",
    ),
    Form(
        name="x64_dense",
        kind=LayerKind.DENSE,
        features=frozenset({"x86-64"}),
        conditions=(INTEGERS,),
        pack=x64.pack_convolution,
        cost=0.1,
        sentence="AVX-512's products of four bytes, or AVX2's of two words, as the machine has.",
    ),
    Form(
        name="neon_conv2d",
        kind=LayerKind.CONV2D,
        features=frozenset({"neon"}),
        conditions=(INTEGERS, SMALL_WEIGHTS),
        pack=neon.pack_convolution,
        cost=0.25,
        sentence="Eight bytes at once, of two products a sum of 16 bits.",
    ),
    Form(
        name="neon_depthwise_conv2d",
        kind=LayerKind.DEPTHWISE_CONV2D,
        features=frozenset({"neon"}),
        conditions=(INTEGERS, SMALL_WEIGHTS),
        pack=neon.pack_depthwise,
        cost=0.6,
        sentence="Eight channels at once, of two taps a sum of 16 bits.",
    ),
    Form(
        name="neon_dense",
        kind=LayerKind.DENSE,
        features=frozenset({"neon"}),
        conditions=(INTEGERS, SMALL_WEIGHTS),
        pack=neon.pack_convolution,
        cost=0.3,
        sentence="Eight bytes at once, of two products a sum of 16 bits.",
    ),
)
