"""Boxes of several networks compared with the first network's boxes, and with labelled boxes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from firmwright.data.arrays import OutputsByName
from firmwright.errors import UserError
from firmwright.pipeline.label_files import read_box_labels
from firmwright.postprocess.boxes import Box
from firmwright.recipe.quantize_keys import BoxThresholds, Thresholds
from firmwright.report.accuracy_table import find_missed_thresholds
from firmwright.verify.detection import BoxComparer
from firmwright.verify.run_records import AccuracyRecord, BoxAccuracy, BoxRates

from ..postprocess.compiled import list_detector

DETECTOR = list_detector()
NAMES = ("cat", "dog", "owl")
CAT = [0, 0, 16, 16, 1, 0.9, 0, 0]
DOG = [32, 0, 48, 16, 1, 0, 0.8, 0]
SHIFTED_DOG = [40, 0, 56, 16, 1, 0, 0.8, 0]
NOTHING = [0.0] * 8


def outputs(*samples: list[list[float]]) -> OutputsByName:
    """Return the list of cells of each sample, filled up with empty cells."""
    cells = [[*rows, *[NOTHING] * (6 - len(rows))] for rows in samples]
    (tensor,) = DETECTOR.outputs
    return {tensor.name: np.array(cells, "float32").reshape(len(samples), *tensor.shape)}


def test_first_network_is_right_without_labels() -> None:
    three = {
        "float32": outputs([CAT, DOG], [CAT]),
        "quantized": outputs([CAT, DOG], []),
        "firmware": outputs([CAT, SHIFTED_DOG], []),
    }
    found = BoxComparer(DETECTOR, 0.9, None).compare(three)
    assert found.right == 3
    assert found.networks == {
        "float32": BoxRates(3, 1, 1, 1),
        "quantized": BoxRates(2, 2 / 3, 1, 3 / 4),
        "firmware": BoxRates(2, 1 / 3, 1 / 2, 1 / 4),
    }


def test_overlap_is_the_recipes() -> None:
    two = {"reference": outputs([DOG]), "firmware": outputs([SHIFTED_DOG])}  # a third in common
    assert BoxComparer(DETECTOR, 0.3, None).compare(two).networks["firmware"].recall == 1
    assert BoxComparer(DETECTOR, 0.4, None).compare(two).networks["firmware"].recall == 0


def test_labels_are_the_reference_of_the_first_network_too(tmp_path: Path) -> None:
    path = tmp_path / "boxes.json"
    path.write_text('[[{"class": "cat", "box": [0, 0, 0.25, 0.5]},'
                    ' {"class": 2, "box": [0, 0, 1, 1]}], []]')  # fmt: skip
    labels = read_box_labels(path, NAMES, 1)
    assert labels == [[Box(0, 0, 0.25, 0.5, 1, 0), Box(0, 0, 1, 1, 1, 2)]]
    found = BoxComparer(DETECTOR, 0.9, labels).compare({"float32": outputs([CAT, DOG])})
    assert (found.right, found.networks) == (2, {"float32": BoxRates(2, 0.5, 0.5, 0.5)})


def test_nothing_to_find_and_nothing_found() -> None:
    found = BoxComparer(DETECTOR, 0.9, None).compare({"firmware": outputs([])})
    assert found.networks == {"firmware": BoxRates(0, 1, 1, 1)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[", "boxes.json: expected a list of boxes for each sample"),
        ('[[{"class": "cat"}]]', "missing required field `box`"),
        ('[[{"class": "cta", "box": [0, 0, 1, 1]}]]', "no class 'cta'; did you mean 'cat'"),
        ('[[{"class": 3, "box": [0, 0, 1, 1]}]]', "no class 3; expected 0 to 2"),
        ('[[{"class": 0, "box": [0.5, 0, 0.5, 1]}]]', "has no area"),
        ("[]", "boxes of 0 samples for 1 samples"),
    ],
)
def test_labels_that_will_not_do(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "boxes.json"
    path.write_text(text)
    with pytest.raises(UserError, match=r"boxes\.json") as raised:
        read_box_labels(path, NAMES, 1)
    assert message in str(raised.value)


def test_thresholds_count_the_boxes() -> None:
    rates = {"reference": 100.0, "firmware": 100.0}
    limits = BoxThresholds(0.9, recall=1, precision=0.6, mean_average_precision=0.5)
    record = AccuracyRecord(
        samples=(),
        calibrated=0,
        labelled=False,
        reference="a runtime",
        firmware="a compiler",
        outputs=(),
        layers=None,
        top1=rates,
        agreement=rates,
        metric=None,
        boxes=BoxAccuracy(
            0.9,
            3,
            {
                "reference": BoxRates(3, 1, 1, 1),
                "firmware": BoxRates(2, 1 / 3, 1 / 2, 1 / 4),
            },
        ),
        thresholds=Thresholds(boxes=limits),
    )
    assert list(find_missed_thresholds(record)) == [
        "2 of 3 boxes are missing in the results of the firmware network (recall 0.333 at an "
        "overlap of 0.9); thresholds.boxes.recall requires 1",
        "1 of 2 boxes of the firmware network are wrong (precision 0.500 at an overlap of "
        "0.9); thresholds.boxes.precision requires 0.6",
        "mean average precision of the firmware network is 0.250 (reference 1.000) at an overlap "
        "of 0.9; thresholds.boxes.mean_average_precision requires 0.5",
    ]
