"""The page of TFLite's operators matches its results; no operator is wrong."""

from __future__ import annotations

import pytest

from tests.conformance.tflite_entries import TYPES, draw_whole
from tests.conformance.tflite_page import (
    PAGE,
    find_missing,
    list_rejected,
    list_schema,
    read_rows,
    render,
)
from tests.conformance.tflite_sweep import Results, run_group, sweep


def test_the_page_is_what_the_results_give() -> None:
    stale = "run `python -m tests.conformance.tflite_page`"
    assert PAGE.read_text(encoding="utf-8") == render(read_rows()), stale


def test_every_operator_of_the_schema_has_a_verdict() -> None:
    swept = {operator for operator, _ in read_rows()}
    assert list_schema() == swept | {*list_rejected()} | find_missing(swept)


@pytest.mark.slow
@pytest.mark.needs("gcc")
@pytest.mark.parametrize("seed", range(2, 7))
def test_no_operator_of_a_sweep_is_wrong(seed: int) -> None:
    """`python -m tests.conformance.tflite_sweep --seed SEED --count 400 --only N` runs one."""
    *_, results = sweep(400, seed)
    assert not results.wrong, "\n".join(map(str, results.wrong))
    assert results.total() == 400
    assert results.total("exact") + results.total("near") > 340


@pytest.mark.slow
@pytest.mark.needs("gcc")
def test_no_network_with_states_or_subgraphs_is_wrong() -> None:
    results = Results()
    for entry in draw_whole(0, TYPES):
        run_group([entry], results)
    assert not results.wrong, "\n".join(map(str, results.wrong))
    assert results.total("exact") + results.total("near") == results.total()
