"""The order of the trials, with trials that compute flash and loss from the assignment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from firmwright.errors import Diagnostic, DiagnosticError
from firmwright.precision import type_search
from firmwright.precision.best_choices import Choice
from firmwright.precision.sensitivity import Measured
from firmwright.precision.type_search import MOST_TRIALS, Search
from firmwright.precision.type_trials import TrialResult, compute_loss
from firmwright.recipe.precision import Precision
from firmwright.recipe.quantize_keys import SearchOptions, Thresholds
from firmwright.verify.run_records import AccuracyRecord, BoxAccuracy, BoxRates, Rates

OTHERS = 1000
"""Bytes of code and other constants."""


def make_layer(name: str, weights: int) -> Measured:
    choices = [Choice(f"int{bits}", weights * bits // 8, 0.5**bits * weights) for bits in (2, 4, 8)]
    return Measured(name, tuple(choices))


LAYERS = [make_layer("a", 100), make_layer("b", 800), make_layer("c", 400)]


@pytest.fixture
def make_search(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Search]:
    """Return a function that makes a search; ``compute`` returns the loss of a precision file."""

    def make(
        compute: Callable[[Precision], float],
        layers: list[Measured] = LAYERS,
        count_code: Callable[[Precision], int] = lambda _: 0,
        **limits: Any,
    ) -> Search:
        def run(_: object, found: Precision) -> TrialResult:
            used = sum(layer.bytes for layer in found.layers.values())
            return TrialResult("", OTHERS + count_code(found) + used, compute(found))

        monkeypatch.setattr(type_search, "run_trial", run)

        def locate(pointer: tuple[str, ...], message: str) -> Diagnostic:
            return Diagnostic("r.yaml", 1, 1, f"{'.'.join(pointer)}: {message}")

        recipe = SimpleNamespace(make_diagnostic=locate)
        job: Any = SimpleNamespace(note=list[str]().append, recipe=recipe)
        return Search(job, SearchOptions(("int2", "int4", "int8"), **limits), "0" * 64, layers)

    return make


def lose(found: Precision) -> float:
    return sum(layer.error for layer in found.layers.values())


def name_types(found: tuple[Choice, ...]) -> list[str]:
    return [choice.weights for choice in found]


def test_the_flash_of_the_code_is_learned_from_the_first_trial(
    make_search: Callable[..., Search],
) -> None:
    made = make_search(lose, flash=OTHERS + 700)
    found = made.find()
    assert name_types(found) == ["int8", "int4", "int4"]
    assert len(made.tried) == 2 and made.build(found).flash == OTHERS + 700


def test_an_inaccurate_trial_is_followed_by_the_next_assignment(
    make_search: Callable[..., Search],
) -> None:
    def refuse(found: Precision) -> float:
        return 2.0 if found.layers["c"].weights == "int8" else 0.5

    made = make_search(refuse, flash=OTHERS + 1000, accuracy=1.0)
    found = made.find()
    assert found[2].weights != "int8"
    assert all(each[2].weights == "int8" for each in [*made.tried][:-1])


def test_without_a_limit_of_flash_the_firmware_becomes_small(
    make_search: Callable[..., Search],
) -> None:
    made = make_search(lose, accuracy=90.0)
    found = made.find()
    small = [t.flash for t in made.tried.values() if t.loss is not None and t.loss <= 90.0]
    assert made.build(found).flash == min(small) < OTHERS + 700
    assert len(made.tried) <= MOST_TRIALS


def test_the_most_exact_types_may_be_less_accurate_than_mixed_types(
    make_search: Callable[..., Search],
) -> None:
    """The errors are estimates: a trial with a larger error may lose less accuracy."""

    def prefer_mixed(found: Precision) -> float:
        types = [layer.weights for layer in found.layers.values()]
        return 0.5 if types[0] == "int4" and types[1] == "int8" else 2.0

    made = make_search(prefer_mixed, accuracy=1.0)
    assert name_types(made.find())[:2] == ["int4", "int8"]
    assert name_types(next(iter(made.tried))) == ["int8"] * 3
    assert len(made.tried) <= MOST_TRIALS


@pytest.mark.parametrize(
    ("types", "advice"),
    [
        (("int4", "int8"), "raise a limit, or add int16 or float32 to `types`"),
        (("int8", "int16"), "raise a limit, or add float32 to `types`"),
        (("int8", "int16", "float32"), "raise a limit"),
    ],
)
def test_a_loss_of_accuracy_names_the_types_to_add(
    make_search: Callable[..., Search], types: tuple[str, ...], advice: str
) -> None:
    made = make_search(lambda _: 9.0, accuracy=1.0)
    made.limits = SearchOptions(types, accuracy=1.0)
    with pytest.raises(DiagnosticError, match=rf"\); {advice}$"):
        made.find()
    assert len(made.tried) == MOST_TRIALS


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (
            {"flash": 1200},
            "flash: the smallest firmware that was built needs 1,325 bytes (int2: 3 layers); raise",
        ),
        ({"flash": 1400, "accuracy": 1.0}, "the best trial loses 300 points with 1,"),
        (
            {"accuracy": 0.5},
            "loses 5.07812 points with 2,300 bytes of flash (int8: 3 layers);",
        ),
    ],
)
def test_limits_that_no_assignment_meets_show_the_best(
    make_search: Callable[..., Search], limits: dict[str, Any], message: str
) -> None:
    made = make_search(lambda found: min(lose(found), 300.0), **limits)
    with pytest.raises(DiagnosticError) as caught:
        made.find()
    assert message in str(caught.value)
    assert len(made.tried) <= MOST_TRIALS


LARGE = [Measured(n, (Choice("int4", 50_001, 0.5), Choice("int8", 100_001, 0.1))) for n in "abc"]


def test_the_largest_types_are_tried_for_many_weights(make_search: Callable[..., Search]) -> None:
    def refuse(found: Precision) -> float:
        return 5.0 * any(layer.weights == "int4" for layer in found.layers.values())

    made = make_search(refuse, LARGE, accuracy=1.0)
    assert name_types(made.find()) == ["int8"] * 3


def test_one_type_for_many_weights_is_the_result(make_search: Callable[..., Search]) -> None:
    only = [Measured(each.layer, each.choices[1:]) for each in LARGE]
    assert name_types(make_search(lambda _: 0.0, only, accuracy=1.0).find()) == ["int8"] * 3


@pytest.mark.parametrize("limits", [{}, {"accuracy": 1.0}])
def test_smaller_types_with_smaller_code_are_tried(
    make_search: Callable[..., Search], limits: dict[str, float]
) -> None:
    pair = [Measured(n, (Choice("int4", 1000, 0.5), Choice("int8", 2000, 0.1))) for n in "ab"]

    def count_code(found: Precision) -> int:
        return 2000 * any(layer.weights == "int8" for layer in found.layers.values())

    made = make_search(lambda _: 0.5, pair, count_code, flash=OTHERS + 2500, **limits)
    assert name_types(made.find()) == ["int4", "int4"]


def make_record(labelled: bool, **values: Any) -> AccuracyRecord:
    rates: Rates = {"float32": 90.0, "quantized": 80.0, "firmware": 88.5}
    record = AccuracyRecord(
        (), 0, labelled, "", "", (), None, rates, rates, None, None, Thresholds()
    )
    return replace(record, **values)


def test_the_loss_is_in_points() -> None:
    assert compute_loss(make_record(labelled=True)) == 1.5
    assert compute_loss(make_record(labelled=False)) is None
    metric = {"float32": 0.95, "quantized": 0.1, "firmware": 0.96}
    assert compute_loss(make_record(labelled=True, metric=metric)) == -1.0
    rates = {"float32": BoxRates(1, 1, 1, 0.5), "firmware": BoxRates(1, 1, 1, 0.497)}
    assert compute_loss(make_record(labelled=False, boxes=BoxAccuracy(0.5, 1, rates))) == 0.3
