"""Defines TFLite_Detection_PostProcess, the last operator of an SSD. LiteRT computes its reference.

Source of the options and the arithmetic: detection_postprocess.cc of TensorFlow Lite. TFLite does
not define the order of equal scores of several classes. Firmware sorts equal scores by class, as in
TFLite Micro. Results after the last object are undefined in TFLite. In firmware, these results are
zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from firmwright.errors import UserError
from firmwright.models.tflite.custom_operators import (
    INT32_MAX,
    Array,
    CustomOperator,
    Kinds,
    Options,
    TensorKind,
)

SCALES = ("y_scale", "x_scale", "h_scale", "w_scale")
THRESHOLDS = ("nms_score_threshold", "nms_iou_threshold")
COUNTS = ("max_detections", "max_classes_per_detection", "num_classes")

TYPES = ("float32", "uint8")
"""The types of each input that LiteRT's kernel supports."""


@dataclass(frozen=True)
class Detections:
    """The numbers of boxes, of values per box and of classes, and the limits of the results."""

    boxes: int
    stride: int
    classes: int
    background: int
    most: int
    per_box: int
    per_class: int
    regular: bool


def read_sizes(inputs: Kinds, options: Options) -> Detections:
    """Return the sizes. Raises UserError if the shapes do not fit the options."""
    encodings, predictions, anchors = (kind.shape for kind in inputs[:3])
    classes = options["num_classes"]
    fits = (
        len(encodings) == 3
        and encodings[0] == 1
        and encodings[2] >= 4
        and predictions[:2] == encodings[:2]
        and len(predictions) == 3
        and 0 <= predictions[2] - classes <= 1
        and anchors == (encodings[1], 4)
        and min(options[name] for name in COUNTS) > 0
    )
    if not fits:
        shapes = ", ".join(str(list(kind.shape)) for kind in inputs[:3])
        raise UserError(
            f"its inputs have the shapes {shapes} for {classes} classes; expected [1, boxes, 4 or "
            "more], [1, boxes, classes, with or without the background] and [boxes, 4]: convert "
            "the model again"
        )
    per_class = options.get("detections_per_class", 100)
    if not isinstance(per_class, int) or not 0 < per_class <= INT32_MAX:
        raise UserError(
            f"the option 'detections_per_class' is {per_class}; expected an integer from 1 to "
            f"{INT32_MAX}: convert the model again"
        )
    return Detections(
        encodings[1],
        encodings[2],
        classes,
        predictions[2] - classes,
        options["max_detections"],
        options["max_classes_per_detection"],
        per_class,
        bool(options.get("use_regular_nms")),
    )


def infer_shapes(inputs: Kinds, options: Options) -> Kinds:
    """Return the boxes, the classes, the scores and the number of boxes, all float32."""
    sizes = read_sizes(inputs, options)
    count = sizes.most * sizes.per_box
    shapes = ((1, count, 4), (1, count), (1, count), (1,))
    return [TensorKind(shape, "float32") for shape in shapes]


def infer_scratch(inputs: Kinds, options: Options) -> Kinds:
    """Return the decoded boxes, a score per box, and the order of the scores."""
    count = read_sizes(inputs, options).boxes
    return [
        TensorKind((count, 4), "float32"),
        TensorKind((count,), "float32"),
        TensorKind((count,), "int32"),
    ]


def list_parameters(_inputs: Kinds, options: Options) -> list[Array]:
    return [np.array([options[name] for name in (*SCALES, *THRESHOLDS)], "float32")]


def number_sizes(inputs: Kinds, options: Options) -> list[int]:
    s = read_sizes(inputs, options)
    return [s.boxes, s.stride, s.classes, s.background, s.most, s.per_box, s.per_class, s.regular]


def clear_undefined(results: Sequence[Array], options: Options) -> list[Array]:
    """Set the results after the last object to zeros, because LiteRT does not write them."""
    boxes, classes, scores, count = results
    per_box, number = options["max_classes_per_detection"], int(count.reshape(-1)[0])
    positions = np.arange(scores.size)
    if options.get("use_regular_nms"):
        defined = positions < number
    else:
        of_box = positions % per_box < min(per_box, options["num_classes"])
        defined = of_box & (positions // per_box < number)
    kept = [np.where(defined, each, 0).astype("float32") for each in (classes, scores)]
    return [np.where(defined[:, np.newaxis], boxes, 0).astype("float32"), *kept, count]


DETECTION = CustomOperator(
    "detection_postprocess",
    None,
    list_parameters,
    number_sizes,
    shapes=infer_shapes,
    scratch=infer_scratch,
    in_float=True,
    clear_undefined=clear_undefined,
    accepts=(TYPES, TYPES, TYPES),
    requires={**dict.fromkeys((*SCALES, *THRESHOLDS)), **dict.fromkeys(COUNTS, INT32_MAX)},
)
