"""Each rule of the accelerator: an accepted case at the limit, and the message of a rejection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from firmwright.devices.soma_dory.placing import place_layers
from firmwright.devices.soma_dory.rules import soma_rules
from firmwright.targets import Context
from firmwright.targets.placement import Placement
from firmwright.toolchain import load_platform

from . import test_analog
from .networks import Form, add, dense, depthwise, ones


@dataclass(frozen=True)
class Case:
    rule: str
    accepted: tuple[Form, ...]
    refused: tuple[tuple[Form, str], ...]


def kernel(height: int, width: int) -> Form:
    half = (height // 2, width // 2)
    return Form(weights=ones(16, 16, height, width), padding=(*half, *half))


CASES = (
    Case(
        "input type",
        (Form(), dense(), add()),
        (
            (Form(dtype="uint8"), "it reads uint8; the accelerator reads int8"),
            (add(dtype="int16"), "it reads int16"),
        ),
    ),
    Case(
        "axes",
        (add(x=(1, 16), other=(1, 16)), dense()),
        (
            (add(x=(16, 8, 8), other=(16, 8, 8)), "it adds tensors of 3 axes"),
            (dense(x=(2, 3, 64)), "it multiplies tensors of 3 and 2 axes"),
        ),
    ),
    Case(
        "equal shapes",
        (add(),),
        ((add(other=(1, 16, 1, 8)), "it adds [1, 16, 8, 8] and [1, 16, 1, 8]"),),
    ),
    Case(
        "weights",
        (Form(), dense()),
        (
            (Form(weights=(16, 16, 3, 3)), "its weights are computed when the network runs"),
            (dense(weights=(64, 16)), "its weights are computed when the network runs"),
        ),
    ),
    Case(
        "weights type",
        (Form(weights=np.full((16, 16, 3, 3), -128, "int8")),),
        (
            (Form(weights=ones(16, 16, 3, 3, dtype="int16")), "its weights are int16, 1 to 1"),
            (dense(weights=np.full((64, 16), 300, "int32")), "its weights are int32, 300 to 300"),
        ),
    ),
    Case("sums type", (Form(),), ((Form(sums="int16", bias=None), "its sums and bias are int16"),)),
    Case(
        "bias",
        (
            Form(bias=None),
            dense(bias=None),
            Form(bias=ones(1, 16, 1, 1, dtype="int32")),
            Form(bias=ones(dtype="int32")),
            dense(bias=ones(1, 16, dtype="int32")),
        ),
        (
            (Form(bias=ones(16, 8, 8, dtype="int32")), "is a constant, [16, 8, 8]"),
            (Form(bias=ones(8, dtype="int32")), "is a constant, [8]"),
            (dense(bias=(1, 16)), "is a tensor that the network computes, [1, 16]"),
        ),
    ),
    Case(
        "layout",
        (Form(),),
        (
            (
                Form(layouts=("NHWC", "OIHW"), x=(1, 8, 8, 16), bias=None),
                "its layouts are NHWC and OIHW",
            ),
            (Form(layouts=("NCHW", "HWIO"), weights=ones(3, 3, 16, 16)), "NCHW and HWIO"),
        ),
    ),
    Case(
        "dilation",
        (Form(),),
        ((Form(dilation=(2, 2), padding=(2, 2, 2, 2)), "its dilation is [2, 2]"),),
    ),
    Case(
        "groups",
        (Form(), depthwise()),
        (
            (
                Form(weights=ones(16, 4, 3, 3), groups=4),
                "it has 4 groups for 16 channels in and 16",
            ),
            (depthwise(weights=ones(32, 1, 3, 3), bias=None), "for 16 channels in and 32 out"),
        ),
    ),
    Case(
        "shift",
        (Form(shift=0), dense(shift=31), add(shift=1)),
        (
            (
                Form(shift=32),
                "it shifts by 32; the accelerator shifts by one constant from 0 to 31",
            ),
            (dense(shift=-1), "it shifts by -1"),
            (Form(shift=np.full((16, 1, 1), 7, "int32")), "it shifts by a constant, [16, 1, 1]"),
            (add(shift=(1, 16, 8, 8)), "it shifts by a tensor that the network computes"),
        ),
    ),
    Case(
        "clip",
        (
            Form(clip=(0, 127)),
            Form(last_clip=(0, 127)),
            dense(last_clip=(0, 127)),
            add(clip=(0, 127)),
        ),
        (
            (Form(clip=(-128, 96)), "it clips to [-128, 96]"),
            (Form(clip=(-129, 127)), "it clips to [-129, 127]"),
            (add(clip=(1, 127)), "it clips to [1, 127]"),
            (dense(clip=None), "it clips to [-inf, inf]"),
        ),
    ),
    Case(
        "output type", (Form(),), ((Form(result="uint8", clip=(0, 127)), "its results are uint8"),)
    ),
    Case(
        "kernel",
        tuple(kernel(h, w) for h, w in ((1, 1), (3, 3), (5, 5), (7, 7), (1, 3), (3, 1), (7, 5))),
        tuple(
            (
                kernel(h, w),
                f"its kernel is {h} x {w}; the accelerator supports sides of 1, 3, 5 and 7, and no "
                "such kernel with additional zeros computes this layer",
            )
            for h, w in ((2, 2), (4, 4), (1, 2), (5, 4), (9, 9))
        ),
    ),
    Case(
        "strides",
        (Form(), Form(strides=(2, 2))),
        tuple((Form(strides=s), f"its strides are {[*s]}") for s in ((3, 3), (1, 2), (2, 1))),
    ),
    Case(
        "padding of rows",
        (
            Form(),
            Form(padding=(0, 1, 0, 1)),
            Form(padding=(0, 1, 1, 1)),
            Form(strides=(2, 2), padding=(0, 1, 1, 1)),
        ),
        (
            (Form(padding=(2, 1, 0, 1)), "it pads rows by 2 and 0"),
            (Form(padding=(0, 1, 2, 1)), "a kernel of 3 x 3 by up to 1, half of the kernel"),
        ),
    ),
    Case(
        "padding of columns",
        (Form(padding=(1, 1, 1, 1)), Form(padding=(1, 1, 1, 0))),
        (
            (Form(padding=(0, 0, 0, 0)), "it pads columns by 0 and 0"),
            (Form(strides=(2, 2), padding=(0, 0, 1, 1)), "it pads columns by 0 and 1"),
            (Form(padding=(1, 2, 1, 2)), "a kernel of 3 x 3 by 1 on the left"),
        ),
    ),
    Case(
        "ReLU of sums",
        (add(), add(clip=(0, 127), platform="diana")),
        ((add(clip=(0, 127), platform="diana-chip"), "it adds tensors and has a ReLU"),),
    ),
    Case(
        "range of sums",
        (Form(bias=np.full((16, 1, 1), 2**31 - 1 - 128 * 144, "int32")),),
        (
            (
                Form(bias=np.full((16, 1, 1), 2**31 - 128 * 144, "int32")),
                "a sum can reach 2147483648; the accelerator has 32 bits",
            ),
        ),
    ),
    Case(
        "tiling",
        (dense(x=(1, 3968), weights=ones(3968, 16)),),
        (
            (dense(x=(1, 4000), weights=ones(4000, 16)), "B of the weight memory"),
            (
                Form(x=(1, 16000, 8, 16), weights=ones(16, 16000, 1, 1), padding=(0, 0, 0, 0)),
                "B of the weight memory",
            ),
        ),
    ),
)


def placed(form: Form) -> Placement:
    return place_layers(form.module(), Context(load_platform(form.platform), "onnx", {}))


def cases() -> Iterator[tuple[str, Form, str]]:
    for case in CASES:
        yield from ((case.rule, form, "") for form in case.accepted)
        yield from ((case.rule, form, sentence) for form, sentence in case.refused)


@pytest.mark.parametrize(("rule", "form", "sentence"), [*cases()])
def test_rule(rule: str, form: Form, sentence: str) -> None:
    placement = placed(form)
    if not sentence:
        assert not placement.violations
        assert len(placement.composites) == 1
        return
    assert not placement.composites
    said = {o.rule: o.sentence for found in placement.violations.values() for o in found}
    assert sentence in said[rule]


def test_every_rule_has_cases() -> None:
    named = {rule.name for rule in (*soma_rules().operators, *soma_rules().layer)}
    assert named == {*(case.rule for case in CASES), *test_analog.REFUSED}
    assert all(case.accepted and case.refused for case in CASES)


def test_the_page_lists_every_rule() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/diana.md").read_text(encoding="utf-8")
    for rule in (*soma_rules().operators, *soma_rules().layer):
        assert f"| {rule.name} |" in page
