"""Every encoding and layout: generated C against numpy, and numpy against formulas by hand."""

from __future__ import annotations

import json
import math
import os
import struct
import subprocess
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from firmwright.ir.tensors import BatchLayout, Tensor
from firmwright.postprocess.boxes import Box
from firmwright.postprocess.detector import ENCODINGS, Detector, fit_detector
from firmwright.postprocess.numpy_detection import detect
from firmwright.recipe.postprocess import BoxCode, Confidence, Detection, Head

from .compiled import REFUSED, CompiledDetector, detection

ANCHORS = ((10.0, 13.0), (16.0, 30.0))
SIGMOID = {"objectness": Confidence(4, "sigmoid"), "class_scores": Confidence(5, "sigmoid")}


def grid_case(encoding: str) -> tuple[Detection, int, tuple[int, ...]]:
    """Return a detection, its number of classes and its output's shape."""
    if encoding == "distributions":
        stated = detection(
            encoding, objectness=None, box=BoxCode(encoding, 0, 8),
            class_scores=Confidence(32, "sigmoid"),
        )  # fmt: skip
        return stated, 3, (1, 35, 4, 8)
    if ENCODINGS[encoding].anchors:
        return detection(encoding, heads=(Head(anchors=ANCHORS),), **SIGMOID), 3, (1, 16, 4, 8)
    return detection(encoding, **SIGMOID), 3, (1, 8, 4, 8)


def assert_same(found: Sequence[Box], expected: Sequence[Box], tolerance: float) -> None:
    assert [b.class_index for b in found] == [b.class_index for b in expected]
    ours = np.array([[b.x0, b.y0, b.x1, b.y1, b.score] for b in found])
    theirs = np.array([[b.x0, b.y0, b.x1, b.y1, b.score] for b in expected])
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def compare(detector: Detector, samples: Sequence[Any], folder: Path, tolerance: float) -> int:
    compiled = CompiledDetector(detector, folder).detect(samples, detector.detection.candidates)
    for found, sample in zip(compiled, samples, strict=True):
        assert_same(found, detect(detector, sample), tolerance)
    return sum(map(len, compiled))


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_c_decodes_what_numpy_decodes(encoding: str, tmp_path: Path) -> None:
    stated, classes, shape = grid_case(encoding)
    scale = 20.0 if encoding in ("centre-size", "corners") else 1.5
    detector = fit_detector(stated, classes, (Tensor("y", shape, "float32"),))
    random = np.random.default_rng(3)
    samples = [[random.normal(0, scale, shape).astype("float32")] for _ in range(10)]
    assert compare(detector, samples, tmp_path, 2e-6 * scale) > 30


@pytest.mark.parametrize(
    ("encoding", "t", "corners"),
    [
        ("centre-size", (20, 10, 8, 4), (16 / 64, 8 / 32, 24 / 64, 12 / 32)),
        ("corners", (16, 8, 24, 12), (16 / 64, 8 / 32, 24 / 64, 12 / 32)),
        (
            "tanh-sigmoid",
            (0.5, -0.5, 0, 0),
            ((2 + math.tanh(0.5)) / 8 - 0.25, (1 - math.tanh(0.5)) / 4 - 0.25,
             (2 + math.tanh(0.5)) / 8 + 0.25, (1 - math.tanh(0.5)) / 4 + 0.25),
        ),
        # Sigmoid of 0 is 1/2: the middle of the cell; an anchor of 16 x 8 pixels.
        ("sigmoid-exp", (0, 0, math.log(2), 0), (4 / 64, 8 / 32, 36 / 64, 16 / 32)),
        ("sigmoid-square", (0, 0, 0, 0), (12 / 64, 8 / 32, 28 / 64, 16 / 32)),
        ("offset-exp", (0.5, 0.5, 0, math.log(2)), (16 / 64, 4 / 32, 24 / 64, 20 / 32)),
        ("distances", (1, 0.5, 1.5, 0.25), (12 / 64, 8 / 32, 32 / 64, 14 / 32)),
    ],
)  # fmt: skip
def test_formula_by_hand(encoding: str, t: Sequence[float], corners: Sequence[float]) -> None:
    """One object in the cell of column 2, row 1, of 8 x 4 cells of 8 x 8 pixels."""
    heads = (Head(anchors=((16, 8),)),) if ENCODINGS[encoding].anchors else (Head(),)
    detector = fit_detector(
        detection(encoding, heads=heads), 3, (Tensor("y", (1, 8, 4, 8), "float32"),)
    )
    output = np.zeros((1, 8, 4, 8), "float32")
    output[0, :, 1, 2] = [*t, 0.5, 0.25, 0.75, 0.5]
    (box,) = detect(detector, [output])
    assert (box.class_index, box.score) == (1, 0.375)
    np.testing.assert_allclose((box.x0, box.y0, box.x1, box.y1), corners, rtol=1e-6)


def test_distribution_by_hand() -> None:
    """The distance is the bin with the largest value, or the mean of two equal bins."""
    stated = detection("distributions", box=BoxCode("distributions", 0, 4), objectness=None,
                       class_scores=Confidence(16), layout="NCHW")  # fmt: skip
    detector = fit_detector(stated, 1, (Tensor("y", (1, 17, 4, 8), "float32"),))
    output = np.zeros((1, 17, 4, 8), "float32")
    output[0, :16, 1, 2] = [0, 99, 0, 0, 99, 0, 0, 0, 0, 0, 99, 99, 0, 99, 99, 0]
    output[0, 16, 1, 2] = 1
    (box,) = detect(detector, [output])
    assert (box.x0, box.y0, box.x1, box.y1) == (1.5 / 8, 1.5 / 4, 5 / 8, 3 / 4)


LAYOUTS = {
    "NCHW": lambda v: v.reshape(1, 16, 4, 8),
    "NHWC": lambda v: v.reshape(1, 16, 4, 8).transpose(0, 2, 3, 1),
    "NACHW": lambda v: v.reshape(1, 2, 8, 4, 8),
    "NAHWC": lambda v: v.reshape(1, 2, 8, 4, 8).transpose(0, 1, 3, 4, 2),
    "NLC": lambda v: v.reshape(2, 8, 32).transpose(0, 2, 1).reshape(1, 64, 8),
    "NCL": lambda v: v.reshape(2, 8, 32).transpose(1, 0, 2).reshape(1, 8, 64),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_are_the_same_boxes(layout: str, tmp_path: Path) -> None:
    values = np.random.default_rng(4).normal(0, 1, (2 * 8 * 32)).astype("float32")
    heads = (Head(stride=8, anchors=ANCHORS),)
    stated = detection("sigmoid-square", heads=heads, **SIGMOID)
    plain = fit_detector(stated, 3, (Tensor("y", (1, 16, 4, 8), "float32"),))
    expected = detect(plain, [LAYOUTS["NCHW"](values)])
    output = np.ascontiguousarray(LAYOUTS[layout](values))
    detector = fit_detector(
        structs.replace(stated, layout=layout), 3, (Tensor("y", output.shape, "float32"),)
    )
    assert len(expected) > 5
    assert detect(detector, [output]) == expected
    compare(detector, [[output]], tmp_path, 2e-6)


def test_heads_of_one_list_and_of_two_outputs_are_the_same_boxes(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    large = random.normal(0, 1, (1, 32, 8)).astype("float32")
    small = random.normal(0, 1, (1, 8, 8)).astype("float32")
    one = fit_detector(
        detection("offset-exp", layout="NLC", heads=(Head(stride=8), Head(stride=16)), **SIGMOID),
        3,
        (Tensor("y", (1, 40, 8), "float32"),),
    )
    two = fit_detector(
        detection(
            "offset-exp", layout="NLC", heads=(Head("large", 8), Head("small", 16)), **SIGMOID
        ),
        3,
        (Tensor("small", (1, 8, 8), "float32"), Tensor("large", (1, 32, 8), "float32")),
    )
    joined = [np.concatenate([large, small], axis=1)]
    assert detect(one, joined) == detect(two, [small, large])
    for name, detector, sample in (("one", one, joined), ("two", two, [small, large])):
        folder = tmp_path / name
        folder.mkdir()
        assert compare(detector, [sample], folder, 2e-6) > 3


@pytest.mark.parametrize(
    ("dtype", "zero_point"), [("int8", -5), ("uint8", 128), ("int16", 7), ("int8", -128)]
)
def test_quantized_outputs_are_read_by_scale_and_zero_point(
    dtype: str, zero_point: int, tmp_path: Path
) -> None:
    scale = 0.0421 if dtype != "int16" else 0.00017
    tensor = Tensor("y", (1, 8, 4, 8), dtype, scale, zero_point)
    detector = fit_detector(detection("distances", **SIGMOID), 3, (tensor,))
    random = np.random.default_rng(6)
    limits = np.iinfo(dtype)
    samples = [
        [random.integers(limits.min, limits.max, tensor.shape, dtype, endpoint=True)]
        for _ in range(5)
    ]
    assert compare(detector, samples, tmp_path, 1e-6) > 10
    real = ((samples[0][0].astype("float64") - zero_point) * scale).astype("float32")
    floats = fit_detector(detector.detection, 3, (Tensor("y", (1, 8, 4, 8), "float32"),))
    assert_same(detect(detector, samples[0]), detect(floats, [real]), 1e-5)


@pytest.mark.parametrize(
    ("layout", "axis"), [("NCHW", 0), ("NHWC", 3), ("NLC", 1), ("NCL", 1), ("NCL", None)]
)
def test_a_sample_of_a_batch_has_its_own_boxes(
    layout: str, axis: int | None, tmp_path: Path
) -> None:
    values = np.random.default_rng(8).normal(0, 1, (3, 2 * 8 * 32)).astype("float32")
    heads = (Head(stride=8, anchors=ANCHORS),)
    stated = detection("sigmoid-square", heads=heads, layout=layout, **SIGMOID)
    samples = [np.ascontiguousarray(LAYOUTS[layout](v)) for v in values]
    alone = fit_detector(stated, 3, (Tensor("y", samples[0].shape, "float32"),))
    joined = samples[0] if axis is None else np.concatenate(samples, axis)
    batch = BatchLayout(3, (axis,))
    detector = fit_detector(stated, 3, (Tensor("y", joined.shape, "float32"),), batch)
    program = CompiledDetector(detector, tmp_path, batch=batch, sample=2)
    (found,) = program.detect([[joined]], 256)
    expected = detect(alone, [samples[0 if axis is None else 2]])
    assert len(expected) > 5
    assert_same(found, expected, 2e-6)


@pytest.mark.parametrize("sample", [-1, 2])
def test_there_is_no_such_sample(sample: int, tmp_path: Path) -> None:
    batch = BatchLayout(2, (0,))
    stated = detection("corners", layout="NLC")
    detector = fit_detector(stated, 3, (Tensor("y", (2, 6, 8), "float32"),), batch)
    program = CompiledDetector(detector, tmp_path, batch=batch, sample=sample).program
    outputs = np.ones((2, 6, 8), "float32").tobytes()
    done = subprocess.run([program], input=struct.pack("<i", 1) + outputs, capture_output=True)
    assert done.returncode == REFUSED


def test_exponents_weigh_the_factors(tmp_path: Path) -> None:
    stated = detection(
        "tanh-sigmoid",
        objectness=Confidence(4, "none", 0.6),
        class_scores=Confidence(5, "none", 0.4),
    )
    detector = fit_detector(stated, 3, (Tensor("y", (1, 8, 4, 8), "float32"),))
    output = np.random.default_rng(7).random((1, 8, 4, 8)).astype("float32")
    assert compare(detector, [[output]], tmp_path, 2e-6) > 2
    best = detect(detector, [output])[0]
    scores = output[0, 4] ** 0.6 * output[0, 5:].max(axis=0) ** 0.4
    assert best.score == pytest.approx(scores.max(), rel=1e-6)


def test_every_encoding_is_in_the_recipe_and_on_its_page() -> None:
    recipe = json.loads(files("firmwright.recipes").joinpath("recipe.schema.json").read_text())
    stated = recipe["properties"]["postprocess"]["properties"]["detection"]["properties"]
    assert stated["box"]["properties"]["encoding"]["enum"] == list(ENCODINGS)
    page = (Path(__file__).parents[2] / "docs" / "howto" / "detection.md").read_text("utf-8")
    rows = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    assert rows[1:] == list(ENCODINGS)


DIGEST_OF_FUNCTIONS = """
import hashlib
import numpy as np
from firmwright.postprocess import numpy_detection
from firmwright.recipe.postprocess import Confidence

values = np.random.default_rng(0).normal(0, 4, 100_000).astype("float32")
functions = (*numpy_detection.CENTER_FUNCTIONS.values(), numpy_detection.sigmoid)
found = [function(values) for function in functions]
found += [f(values, np.float32(3), np.float32(7)) for f in numpy_detection.SIZE_FUNCTIONS.values()]
found += [numpy_detection.compute_expected_bins(values.reshape(4, 25, -1))]
found += [numpy_detection.apply_confidence(abs(values), Confidence(0, "sigmoid", 0.6))]
assert {array.dtype.name for array in found} == {"float32"}
print(hashlib.sha256(b"".join(array.tobytes() for array in found)).hexdigest())
"""


def test_the_reference_is_the_same_on_every_processor() -> None:
    """NumPy is configured to avoid newer instructions; it ignores unknown names."""
    features = "AVX2 FMA3 X86_V3 AVX512F AVX512_SKX X86_V4"
    recorded = {
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", DIGEST_OF_FUNCTIONS],
            env={**os.environ, "NPY_DISABLE_CPU_FEATURES": disabled},
            capture_output=True, text=True, check=True,
        ).stdout
        for disabled in ("", features)
    }  # fmt: skip
    assert len(recorded) == 1
