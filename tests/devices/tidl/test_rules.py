"""Each rule of TIDL: an accepted case at the limit, and the message of a rejected one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tvm import relax

from firmwright.devices.tidl.options import tidl_rules

from .networks import network, placed, sentences, values
from .rule_cases import CASES, Form

op = relax.op


def cases() -> Iterator[tuple[str, Form, str]]:
    for rule, (accepted, refused) in CASES.items():
        yield from ((rule, form, "") for form in accepted)
        yield from ((rule, form, sentence) for form, sentence in refused)


@pytest.mark.parametrize(("rule", "form", "sentence"), list(cases()))
def test_rule(rule: str, form: Form, sentence: str) -> None:
    module = network(lambda builder, x: [builder.normalize(form.build(x))], form.shape)
    placement = placed(module, form.platform, tensor_bits=form.bits)
    if sentence:
        assert sentence in sentences(placement)[rule]
    else:
        assert not placement.violations


def in_nhwc(build: Callable[[relax.Expr], relax.Expr]) -> Any:
    """Return a network of a channels-last pooling, and an operator after it."""
    return network(lambda _, x: [build(op.nn.max_pool2d(x, layout="NHWC"))], (1, 8, 6, 4))


@pytest.mark.parametrize(
    ("build", "rule"),
    [
        (lambda x: op.add(x, values(4)), ""),
        (lambda x: op.add(x, values(6, 1)), "operands"),
        (lambda x: op.mean(x, [1, 2]), ""),
        (lambda x: op.mean(x, [2, 3]), "averaged axes"),
        (lambda x: op.max(x, [1], True), ""),
        (lambda x: op.max(x, [2], True), "reduced axis"),
        (lambda x: op.argmax(x, 1, True), "argmax axis"),
        (lambda x: op.nn.softmax(x, 2), ""),
        (lambda x: op.nn.softmax(x, 3), "softmax axis"),
        (lambda x: op.nn.pad(x, [0, 0, 1, 1, 2, 2, 0, 0]), ""),
        (lambda x: op.nn.pad(x, [0, 0, 0, 0, 1, 1, 1, 1]), "pad"),
        (lambda x: op.nn.prelu(x, values(4), 3), ""),
        (lambda x: op.nn.layer_norm(x, values(4), values(4), [3]), "normalized axes"),
        (lambda x: op.nn.instance_norm(x, values(4), values(4), 3, [1, 2]), ""),
        (lambda x: op.nn.adaptive_avg_pool2d(x, [1, 1], layout="NHWC"), ""),
    ],
)
def test_the_layout_tells_which_axis_is_which(
    build: Callable[[relax.Expr], relax.Expr], rule: str
) -> None:
    found = sentences(placed(in_nhwc(build)))
    assert rule in found if rule else not found


def test_every_rule_has_cases() -> None:
    # The rules for networks that are already quantized are tested in test_options.py.
    elsewhere = {"quantized to 8 bits", "quantized weights", "symmetric scales", "powers of two"}
    assert {rule.name for rule in tidl_rules().rules} == set(CASES) | elsewhere


def test_an_operator_that_tidl_has_not_is_named() -> None:
    module = network(lambda builder, x: [builder.emit(op.sign(x))])
    assert sentences(placed(module))["operator"] == "TIDL has no sign"
