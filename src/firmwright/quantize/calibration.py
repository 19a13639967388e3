"""Collects the values of each tensor on the calibration samples: limits and a histogram.

All data for the methods that choose ranges is collected in one pass. Therefore a change of the
method or of quantization parameters does not evaluate the network again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnxruntime.quantization.calibrate import HistogramCollector

from firmwright.data.samples import Sample
from firmwright.errors import UserError
from firmwright.models.onnx.graph.recurrent import is_initial_state, name_without_step
from firmwright.quantize.float_graph import evaluate, float_tensors
from firmwright.quantize.unrolled_layers import join_steps

Array = npt.NDArray[Any]
BINS = 2048
"""The number of bins of the first sample's histogram.

Later samples with a larger range add bins.
"""
WIDENING_RATIO = 64
"""Bins become wider instead of more numerous if a range grows by more than this factor."""
ZERO_THRESHOLD = 2.0**-100
"""A tensor counts as zero below this limit, because float32 has no numbers for the edges of its
bins.
"""
AVERAGING_CONSTANT = 0.01
"""The weight of a sample in a moving average, the default of ONNX Runtime and PyTorch."""
QUANTIZED_BINS = 128
"""The number of levels on one side of zero in the comparison of the entropy method, the default
of ONNX Runtime.
"""


@dataclass(frozen=True)
class Distribution:
    """Values of one tensor over all samples: counts in bins of equal width, symmetric about 0.

    ``moving_average`` has the lowest and the highest value, averaged over the samples in order. A
    sample has a weight of a hundredth, as in ONNX Runtime and PyTorch. ``moving_average`` is None
    if there are no samples.
    """

    lowest: float
    highest: float
    counts: npt.NDArray[np.int64]
    edges: npt.NDArray[np.float64]
    moving_average: tuple[float, float] | None = None

    @property
    def centers(self) -> npt.NDArray[np.float64]:
        return (self.edges[:-1] + self.edges[1:]) / 2


@dataclass(frozen=True, slots=True)
class CalibrationRecord:
    """The calibration stage's summary (file ``calibration/calibration.json``).

    ``samples`` are the digests of the calibration samples in order: SHA-256 of the name, type,
    shape and bytes of each input. ``tensors`` names the rows of ``distributions.npz``.
    """

    samples: tuple[str, ...]
    tensors: tuple[str, ...]


def advise(model: onnx.ModelProto) -> str:
    """Return advice about a network whose results are infinite or NaN."""
    for constant in model.graph.initializer:
        values = onnx.numpy_helper.to_array(constant)
        if values.dtype.kind == "f" and np.isnan(values).any():
            return f"the constant '{constant.name}' contains NaN: export the model again"
        if values.dtype.kind == "f" and np.isinf(values).any():
            return f"the constant '{constant.name}' contains infinite values, a possible cause"
    return "check the preprocessing of the sample"


def calibrate(model: onnx.ModelProto, samples: Sequence[Sample]) -> dict[str, Distribution]:
    """Evaluate the network on every sample and return each float tensor's distribution.

    Tensors that differ only in the step of a recurrent layer share one distribution, because the
    steps share their code. Raises UserError with the tensor and the sample if a value is not
    finite.
    """
    tensors = float_tensors(model)
    states = [i.name for i in model.graph.initializer if is_initial_state(i.name)]
    keys = {name: name_without_step(name) for name in sorted([*tensors, *states])}
    collector = make_collector("entropy", 0.0)
    averages: dict[str, Array] = {}
    for index, results in enumerate(evaluate(model, samples, tensors)):
        for name, array in results.items():
            if not np.isfinite(array).all():
                raise UserError(
                    f"quantize: tensor '{name}' has infinite or NaN values for sample {index}; "
                    f"{advise(model)}"
                )
        joined = join_steps(results, keys)
        arrays = {k: flush_to_zero(a.astype("float32")) for k, a in joined.items() if a.size}
        widen_bins(collector, arrays)
        for name, array in arrays.items():
            limits = np.array([array.min(), array.max()], "float64")
            before = averages.setdefault(name, limits)
            averages[name] = before + AVERAGING_CONSTANT * (limits - before)
        with redirect_stdout(StringIO()):  # the collector prints its progress
            collector.collect(arrays)
    distributions = {
        name: Distribution(
            float(h[2]),
            float(h[3]),
            h[0].astype("int64"),
            h[1].astype("float64"),
            (float(averages[name][0]), float(averages[name][1])),
        )
        for name, h in collector.get_histogram_dict().items()
    }
    return {name: distributions[key] for name, key in keys.items() if key in distributions}


def flush_to_zero(array: Array) -> Array:
    return array if np.abs(array).max() >= ZERO_THRESHOLD else np.zeros_like(array)


def widen_bins(collector: Any, arrays: Mapping[str, Array]) -> None:
    """Rebuild a histogram with wider bins if a sample has a much larger range.

    The collector keeps the width of the first sample's bins. The number of narrow bins would exceed
    the memory if the first sample's values were almost zero.
    """
    for name in arrays.keys() & collector.histogram_dict.keys():
        counts, edges, lowest, highest, reach = collector.histogram_dict[name]
        wanted = np.abs(arrays[name]).max()
        if wanted > WIDENING_RATIO * reach > 0:
            centres = (edges[:-1] + edges[1:]) / 2
            counts, edges = np.histogram(centres, BINS, (-wanted, wanted), weights=counts)
            collector.histogram_dict[name] = (counts, edges, lowest, highest, wanted)


def make_collector(method: str, percentile: float) -> Any:
    return HistogramCollector(
        method=method,
        symmetric=False,
        num_bins=BINS,
        num_quantized_bins=QUANTIZED_BINS,
        percentile=percentile,
        scenario="same",
    )


def pack_distributions(distributions: dict[str, Distribution]) -> dict[str, Array]:
    """Return the arrays that :func:`unpack_distributions` reads, named by position."""
    arrays: dict[str, Array] = {}
    for index, (_, one) in enumerate(sorted(distributions.items())):
        average = one.moving_average or ()
        limits = np.array([one.lowest, one.highest, one.edges[0], one.edges[-1], *average])
        arrays[f"limits_{index}"] = limits
        arrays[f"counts_{index}"] = one.counts
    return arrays


def unpack_distributions(names: Sequence[str], arrays: dict[str, Array]) -> dict[str, Distribution]:
    distributions = {}
    for index, name in enumerate(names):
        low, high, first, last, *average = (float(v) for v in arrays[f"limits_{index}"])
        counts = arrays[f"counts_{index}"]
        edges = np.linspace(first, last, len(counts) + 1)
        averages = (average[0], average[1]) if average else None
        distributions[name] = Distribution(low, high, counts, edges, averages)
    return distributions
