"""Forms for x86-64, which ask when they run whether there is AVX-512 or AVX2."""

from __future__ import annotations

from firmwright.devices.cpu.forms import addition, floats, matrices, x64
from firmwright.devices.cpu.forms.conditions import FACTORS, INTEGERS, ROUNDED
from firmwright.devices.cpu.forms.form import Form
from firmwright.ir.layer import LayerKind

FORMS = (
    Form(
        name="x64_add",
        kind=LayerKind.ADD,
        features=frozenset({"x86-64"}),
        conditions=(FACTORS,),
        pack=addition.pack_addition,
        cost=0.0,
        sentence="Two multiplications and a shift, of eight elements at once where there is AVX2.",
        in_place=("input_0", "input_1"),
    ),
    Form(
        name="x64_conv2d",
        kind=LayerKind.CONV2D,
        features=frozenset({"x86-64"}),
        conditions=(INTEGERS, ROUNDED),
        pack=x64.pack_convolution,
        cost=0.1,
        sentence="AVX-512's products of four bytes, or AVX2's of two words, as the machine has.",
    ),
    Form(
        name="x64_depthwise_conv2d",
        kind=LayerKind.DEPTHWISE_CONV2D,
        features=frozenset({"x86-64"}),
        conditions=(INTEGERS, ROUNDED),
        pack=x64.pack_depthwise,
        cost=0.5,
        sentence="Two taps of 16 channels at once, by AVX-512 or AVX2, as the machine has.",
    ),
    Form(
        name="x64_dense",
        kind=LayerKind.DENSE,
        features=frozenset({"x86-64"}),
        conditions=(INTEGERS, ROUNDED),
        pack=x64.pack_convolution,
        cost=0.1,
        sentence="AVX-512's products of four bytes, or AVX2's of two words, as the machine has.",
    ),
    Form(
        name="x64_matmul",
        kind=LayerKind.MATMUL,
        features=frozenset({"x86-64"}),
        conditions=(matrices.SCALED,),
        pack=matrices.pack_pairs,
        cost=0.4,
        sentence="AVX2's products of two words for four rows by 16 columns, where there is AVX2.",
    ),
    Form(
        name="x64_float_conv2d",
        kind=LayerKind.FLOAT_CONV2D,
        features=frozenset({"x86-64"}),
        conditions=(),
        pack=lambda layer: floats.pack_convolution(layer, floats.X86_64),
        cost=0.15,
        sentence="Floats in blocks of pixels by channels, in the machine's widest vectors.",
        in_place=("added",),
    ),
    Form(
        name="x64_float_depthwise_conv2d",
        kind=LayerKind.FLOAT_DEPTHWISE_CONV2D,
        features=frozenset({"x86-64"}),
        conditions=(floats.CHANNELS_LAST,),
        pack=lambda layer: floats.pack_depthwise(layer, floats.X86_64),
        cost=0.2,
        sentence="16 channels at once, in the machine's widest vectors.",
    ),
)
