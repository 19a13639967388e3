"""Forms for Cortex-M cores with Helium, the vector extension of Armv8.1-M."""

from __future__ import annotations

from firmwright.devices.cpu.forms import addition, mve
from firmwright.devices.cpu.forms.conditions import FACTORS, INTEGERS, ROUNDED
from firmwright.devices.cpu.forms.form import Condition, Form
from firmwright.ir.layer import LayerKind

FORMS = (
    Form(
        name="mve_conv2d",
        kind=LayerKind.CONV2D,
        features=frozenset({"armv8.1-m-mve"}),
        conditions=(INTEGERS, ROUNDED),
        pack=mve.pack_convolution,
        cost=0.2,
        sentence="VMLADAVA adds 16 products at once, for three pixels by two channels.",
    ),
    Form(
        name="mve_depthwise_conv2d",
        kind=LayerKind.DEPTHWISE_CONV2D,
        features=frozenset({"armv8.1-m-mve"}),
        conditions=(
            INTEGERS,
            ROUNDED,
            Condition(
                "at most 16 taps, within 256 bytes of a padded channel, and 64 KiB for seven steps",
                mve.reaches_few,
            ),
        ),
        pack=mve.pack_depthwise,
        cost=0.8,
        sentence="A channel at a time, of which one load gathers all taps of a pixel.",
    ),
    Form(
        name="mve_dense",
        kind=LayerKind.DENSE,
        features=frozenset({"armv8.1-m-mve"}),
        conditions=(INTEGERS, ROUNDED),
        pack=mve.pack_convolution,
        cost=0.2,
        sentence="VMLADAVA adds 16 products at once, for four channels.",
    ),
    Form(
        name="mve_add",
        kind=LayerKind.ADD,
        features=frozenset({"armv8.1-m-mve"}),
        conditions=(FACTORS,),
        pack=addition.pack_addition,
        cost=0.0,
        sentence="Two multiplications and a shift for four elements at once.",
        in_place=("input_0", "input_1"),
    ),
)
