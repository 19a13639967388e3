"""Clips to a part of int8: the accelerator clips less, and the core clips the rest if that pays."""

from __future__ import annotations

import pytest
import tvm
from tvm import relax

from firmwright.devices.soma_dory.placing import place_layers, prepare_layers
from firmwright.ir.relax import main_bindings, operator_name
from firmwright.targets import Context
from firmwright.toolchain import load_platform

from .networks import Form, add, dense, ones

CONTEXT = Context(load_platform("diana"), "onnx", {})
ONE_PRODUCT = Form(x=(1, 1, 8, 8), weights=ones(16, 1, 1, 1), padding=(0, 0, 0, 0), clip=(0, 96))


def prepared(form: Form) -> tvm.IRModule:
    return prepare_layers(relax.transform.ConvertToDataflow()(form.module()), CONTEXT)


@pytest.mark.parametrize(
    ("form", "clips"),
    [
        (Form(clip=(0, 96)), [(0, 127), (0, 96)]),
        (Form(clip=(-128, 96)), [(-128, 127), (-128, 96)]),
        (dense(clip=(5, 5)), [(0, 127), (5, 5)]),
    ],
)
def test_the_core_clips_behind_the_accelerator(form: Form, clips: list[tuple[int, int]]) -> None:
    module = prepared(form)
    calls = [b.value for b in main_bindings(module) if operator_name(b.value) == "relax.clip"]
    assert [tuple(int(limit.value) for limit in call.args[1:]) for call in calls] == clips
    placement = place_layers(module, CONTEXT)
    assert len(placement.composites) == 1 and not placement.violations


@pytest.mark.parametrize(
    "form",
    [add(clip=(0, 96)), ONE_PRODUCT, Form(clip=(-129, 127)), Form(clip=(9, 5))],
    ids=["sum", "one product", "beyond int8", "upside down"],
)
def test_a_clip_that_does_not_pay_or_leaves_int8_is_refused(form: Form) -> None:
    placement = place_layers(prepared(form), CONTEXT)
    assert not placement.composites
    assert {o.rule for found in placement.violations.values() for o in found} == {"clip"}
