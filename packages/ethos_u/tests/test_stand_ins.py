"""Networks with the layers of person_detect and YOLOv8n are exact, and are one region."""

from partition import compare_region
from stand_ins import write_detector, write_mobilenet


def test_mobilenet() -> None:
    _, model, inputs = write_mobilenet()
    compare_region(model, inputs)


def test_detector() -> None:
    _, model, inputs = write_detector(64, (8, 8, 16, 16, 16), 4)
    compare_region(model, inputs)
