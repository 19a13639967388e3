"""The texts of the page about each layer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from firmwright.report.advice import Advice
from firmwright.report.page import group_advice


def test_advice_about_two_parts_of_an_operator_is_told_once() -> None:
    advice = Advice("do", ("a", "a"), "npu", moves=True, saves=5, unit="cycles")
    layers = [SimpleNamespace(title="a"), SimpleNamespace(title="b")]
    report = cast(Any, SimpleNamespace(advice=(advice,), layers=layers))
    assert group_advice(report) == {"a": [advice], "b": []}
