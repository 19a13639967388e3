"""The page of TFLite's operators matches its results; no operator is wrong."""

from __future__ import annotations

import pytest

from tests.conformance.tflite_page import PAGE, read_rows, render
from tests.conformance.tflite_sweep import sweep


def test_the_page_is_what_the_results_give() -> None:
    stale = "run `python -m tests.conformance.tflite_page`"
    assert PAGE.read_text(encoding="utf-8") == render(read_rows()), stale


@pytest.mark.slow
@pytest.mark.needs("gcc")
def test_no_operator_of_a_short_sweep_is_wrong() -> None:
    *_, results = sweep(40, 2)
    wrong = {key for key, counts in results.counts.items() if counts["wrong"]}
    assert not wrong
