"""Compiles, runs and checks random graphs of float operators, and their quantized forms.

``python -m tests.hammer.graphs [--count 500] [--seconds S] [--seed 0] [--first 0]``
"""

from __future__ import annotations

import random
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from firmwright.errors import UserError
from firmwright.models import FORMATS
from firmwright.models.onnx.float64 import run_reference as run_in_float64
from tests.hammer.campaign import FindingError, run_campaign
from tests.hammer.quantized_models import Quantizer
from tests.hammer.random_models import draw_input, make_float_model
from tests.networks.firmware import run_generated
from tests.networks.qdq_operators import Draw

WARNINGS = ("-Wconversion", "-Wunused", "-Wmaybe-uninitialized")
SAMPLES = 2
TOLERANCE = 2.0**-16
"""Maximum difference of float results, as a part of the largest result."""

Arrays = Sequence[npt.NDArray[Any]]


def make_model(seed: int, is_quantized: bool) -> onnx.ModelProto:
    model = make_float_model(seed)
    return Quantizer(model, Draw(seed + 10**6)).write() if is_quantized else model


def try_model(model: onnx.ModelProto, folder: Path) -> str:
    """Return ``exact``, ``near`` or ``one step``. Raises FindingError for all other outcomes."""
    samples = [draw_input(model, seed) for seed in range(SAMPLES)]
    data = model.SerializeToString()
    try:
        found = [outputs[0] for outputs in run_generated(data, samples, folder, WARNINGS)]
    except UserError as error:
        raise FindingError(f"rejected: {error}") from None
    except Exception:
        raise FindingError(traceback.format_exc()) from None
    expected = FORMATS["onnx"].load().run_reference(data, samples).outputs
    outcome = compare(found, [outputs[0] for outputs in expected], find_step(model))
    if not outcome.startswith("differs"):
        return outcome
    try:
        exact = run_in_float64(data, samples).outputs
    except UserError as error:
        raise FindingError(f"{outcome}; {error}") from None
    again = compare(found, [outputs[0] for outputs in exact], find_step(model))
    if again.startswith("differs"):
        raise FindingError(f"{outcome}; from float64: {again}")
    return f"{again} in float64"


def find_step(model: onnx.ModelProto) -> float:
    """Return the difference of two neighbors in the output; 0 if it is not quantized."""
    (output,) = model.graph.output
    if output.type.tensor_type.elem_type != onnx.TensorProto.FLOAT:
        return 1.0
    last = model.graph.node[-1]
    if last.op_type != "DequantizeLinear":
        return 0.0
    stored = {t.name: t for t in model.graph.initializer}
    return float(onnx.numpy_helper.to_array(stored[last.input[1]]))


def compare(found: Arrays, expected: Arrays, step: float) -> str:
    ours = np.stack(found).astype("float64")
    theirs = np.stack(expected).astype("float64")
    largest = float(np.abs(ours - theirs).max(initial=0))
    if np.array_equal(ours, theirs, equal_nan=True):
        return "exact"
    limit = TOLERANCE * max(1.0, float(np.nanmax(np.abs(theirs), initial=0)))
    if largest <= limit:
        return "near"
    if largest <= step * 1.001:
        return "one step"
    return f"differs by {largest / step:g} steps" if step else f"differs by {largest:g}"


def try_case(draw: random.Random) -> str:
    seed, is_quantized = draw.randrange(10**6), draw.random() < 0.5
    kind = "quantized" if is_quantized else "float"
    model = make_model(seed, is_quantized)
    with tempfile.TemporaryDirectory() as folder:
        try:
            return f"{kind} {try_model(model, Path(folder))}"
        except FindingError as finding:
            operators = ", ".join(n.op_type for n in model.graph.node)
            raise FindingError(f"{kind} {seed}: {operators}: {finding}") from None


if __name__ == "__main__":
    sys.exit(run_campaign("tests.hammer.graphs", try_case, sys.argv[1:], 500))
