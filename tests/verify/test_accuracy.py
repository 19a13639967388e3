"""Networks compared on equal samples, and the thresholds that they miss."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from firmwright.data.signals import SignalQuality, SignalStatistics
from firmwright.errors import UserError
from firmwright.pipeline.label_files import read_class_labels
from firmwright.quantize.quantization_record import LayerAccuracy
from firmwright.recipe.quantize_keys import Thresholds
from firmwright.report.accuracy_table import find_missed_thresholds, format_accuracy, format_failure
from firmwright.verify.accuracy import Evaluation, Metric, measure_accuracy
from firmwright.verify.run_records import AccuracyRecord

SCORES = np.array([[3, 0, 1], [0, 2, 1], [1, 0, 2], [0, 0, 5]], "float32")
LABELS = np.array([0, 1, 2, 1])
SWAPPED = SCORES[[1, 0, 2, 3]]
NO_LIMITS = Thresholds()
LAYERS = tuple(
    LayerAccuracy(f"layer_{i}", f"t{i}", SignalQuality(30.0 - i, 0.99), float(i)) for i in range(7)
)


def found(
    *others: tuple[str, np.ndarray],
    metric: Metric | None = None,
    limits: Thresholds = NO_LIMITS,
) -> AccuracyRecord:
    """Compare networks with the network whose scores are correct."""
    first = "float32" if len(others) > 1 else "reference"
    networks = {name: {"y": scores} for name, scores in ((first, SCORES), *others)}
    layers = LAYERS if len(others) > 1 else None
    evaluated = Evaluation(("a", "b", "c", "d"), 0, networks, "a runtime", "a compiler", layers)
    return measure_accuracy(evaluated, LABELS, metric, None, limits)


def test_model_that_is_compiled_as_it_is_has_two_networks() -> None:
    record = found(("firmware", SWAPPED))
    assert record.top1 == {"reference": 75, "firmware": 25}
    assert record.agreement == {"reference": 100, "firmware": 50}
    assert list(record.outputs[0].signals) == ["firmware"]
    assert record.layers is None


def test_first_network_s_classes_are_right_without_labels() -> None:
    evaluated = Evaluation(
        ("a",), 0, {"reference": {"y": SCORES}, "firmware": {"y": SWAPPED}}, "", "", None
    )
    assert measure_accuracy(evaluated, None, None, None, Thresholds()).top1["firmware"] == 50


def test_network_that_gives_the_class_itself() -> None:
    given = {"reference": {"y": np.array([[0], [1], [2], [2]])}}
    given["firmware"] = {"y": np.array([[0], [1], [1], [2]])}
    record = measure_accuracy(
        Evaluation(("a",), 0, given, "", "", None), LABELS, None, None, NO_LIMITS
    )
    assert record.top1 == {"reference": 75, "firmware": 50}


def test_equal_networks_pass_every_threshold_but_the_labels() -> None:
    passed = Thresholds(top1=75, top1_loss=0, snr=200, cosine=1)
    assert format_failure(found(("firmware", SCORES), limits=passed)) is None
    missed = structs.replace(passed, top1=75.1)
    assert list(find_missed_thresholds(found(("firmware", SCORES), limits=missed))) == [
        "top-1 of the firmware network is 75.00 % (reference 75.00 %); thresholds.top1 requires "
        "75.1"
    ]


def test_every_threshold_that_is_missed_is_named() -> None:
    limits = Thresholds(top1=50, top1_loss=1, snr=10, cosine=0.9, metric=4)
    record = found(("firmware", SWAPPED), metric=lambda o, _: o["y"][0].max(), limits=limits)
    assert format_failure(record) == (
        "the network is less accurate than the recipe requires:\n"
        "  top-1 of the firmware network is 25.00 % (reference 75.00 %); thresholds.top1 requires "
        "50\n"
        "  top-1 of the firmware network is 25.00 %, 50.00 points below reference (75.00 %); "
        "thresholds.top1_loss allows 1\n"
        "  metric of the firmware network is 2 (reference 3); thresholds.metric requires 4\n"
        "  SNR of the firmware output 'y' is 2.38 dB; thresholds.snr requires 10\n"
        "  cosine of the firmware output 'y' is 0.57071; thresholds.cosine requires 0.9"
    )


def test_worst_layers_are_named_where_there_is_a_float_network() -> None:
    record = found(("quantized", SWAPPED), ("firmware", SWAPPED), limits=Thresholds(top1_loss=0))
    message = format_failure(record)
    assert message is not None
    assert message.count("50.00 points below float") == 2
    worst = message.partition("the layers with the largest loss:\n")[2].splitlines()
    assert [line.rpartition(" ")[2] for line in worst] == [f"layer_{i}" for i in (6, 5, 4, 3, 2)]


def test_table_has_a_column_for_each_network() -> None:
    assert format_accuracy(found(("firmware", SWAPPED))) == [
        "accuracy on 4 samples       reference   firmware",
        "top-1, %                        75.00      25.00",
        "same class as reference, %     100.00      50.00",
        "SNR of output 'y': firmware 2.38 dB, cosine 0.57071",
    ]


def test_samples_that_calibrated_are_noted() -> None:
    lines = format_accuracy(replace(found(("firmware", SWAPPED)), calibrated=3))
    assert lines[1] == "the calibration used 3 of these samples; use others"


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_outputs_that_are_not_finite_are_refused(wrong: float) -> None:
    spoilt = SCORES.copy()
    spoilt[1:3, 0] = wrong
    with pytest.raises(UserError, match="output 'y' of the firmware network: sample 1 and 1 more"):
        found(("firmware", spoilt))


@pytest.mark.parametrize("value", [float("nan"), "high", None])
def test_metric_returns_a_number(value: float) -> None:
    with pytest.raises(UserError, match=r"evaluate\.metric: returned .*; expected a number"):
        found(("firmware", SCORES), metric=lambda *_: value)


def test_layer_that_is_not_finite_is_the_worst_there_can_be() -> None:
    total = SignalStatistics()
    total.add(np.array([1.0, -np.inf]), np.array([1.0, -3.0]))
    total.add(np.array([1.0, -3.0]), np.array([1.0, -3.0]))
    assert total.quality == SignalQuality(-300, 0.5)


def test_labels_can_be_in_an_archive(tmp_path: Path) -> None:
    np.savez(tmp_path / "test.npz", image=np.zeros(3), labels=np.array([2, 0, 1]))
    assert list(read_class_labels(tmp_path / "test.npz", 3, 4)) == [2, 0, 1]
    np.savez(tmp_path / "other.npz", y=np.array([2, 0, 1]))
    message = r"no array for the labels \(it has: y\); save the array as 'labels'"
    with pytest.raises(UserError, match=message):
        read_class_labels(tmp_path / "other.npz", 3, 4)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 4, -1, 2], r"label 4 of sample 1 and 1 more: .* 4 classes; expected 0 to 3"),
        ([0, 1], "2 labels for 3 samples"),
        ([0.0, 1.0, 2.0], "expected whole numbers, one label per sample; found float64"),
    ],
)
def test_labels_that_do_not_fit(tmp_path: Path, labels: list[int], message: str) -> None:
    np.save(tmp_path / "labels.npy", np.array(labels))
    with pytest.raises(UserError, match=message):
        read_class_labels(tmp_path / "labels.npy", 3, 4)
    if message.startswith("label "):  # a metric may give these labels another meaning
        assert list(read_class_labels(tmp_path / "labels.npy", 3, None)) == [0, 4, -1]
