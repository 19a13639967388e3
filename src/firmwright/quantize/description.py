"""Describes a quantized network: its quantization parameters, and notes for the user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx
import onnxruntime

from firmwright.quantize.calibration import CalibrationRecord, Distribution
from firmwright.quantize.float_graph import find_readers
from firmwright.quantize.integer_io import read_quant_params
from firmwright.quantize.quantization_record import QuantizationRecord, TensorQuantParams
from firmwright.recipe.quantize_keys import QuantizeOptions

RESULT_SUFFIX = "_DequantizeLinear_Output"
"""The suffix that ONNX Runtime's quantizer appends to the name of a quantized tensor."""
OUTLIER_RATIO = 32
"""The minimum ratio for a note: the largest magnitude divided by the 99.9th percentile. Above
this ratio, all but one in a thousand values share eight steps of 8 bits.
"""
OUTLIER_QUANTILE = 0.999


def describe_quantization(
    model: onnx.ModelProto,
    distributions: Mapping[str, Distribution],
    calibration: CalibrationRecord,
    options: QuantizeOptions,
) -> QuantizationRecord:
    """Describe a QDQ graph whose inputs and outputs are still float32."""
    params = []
    quantized = {n.output[0] for n in model.graph.node if n.op_type == "QuantizeLinear"}
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] in quantized:
            quant_params = read_quant_params(node, model)
            name = node.output[0].removesuffix(RESULT_SUFFIX)
            params.append(
                TensorQuantParams(
                    name, quant_params.dtype, quant_params.scale, quant_params.zero_point
                )
            )
    return QuantizationRecord(
        engine=f"onnxruntime {onnxruntime.__version__}",
        scheme=options.scheme,
        activations=options.activations,
        weights=options.weights,
        per_channel=options.per_channel,
        method=options.calibration.method,
        samples=calibration.samples,
        tensors=tuple(sorted(params, key=lambda one: one.tensor)),
        kept_float=tuple(sorted(find_float_operators(model))),
        notes=tuple(write_notes(distributions, {one.tensor: one for one in params}, options)),
    )


def find_float_operators(model: onnx.ModelProto) -> Iterator[str]:
    """Yield the names of operators that neither read nor write a quantized tensor."""
    makers = {o: n.op_type for n in model.graph.node for o in n.output}
    readers = find_readers(model)
    for node in model.graph.node:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            continue
        reads = any(makers.get(name) == "DequantizeLinear" for name in node.input)
        following = [reader for name in node.output for reader in readers.get(name, [])]
        writes = any(reader.op_type == "QuantizeLinear" for reader in following)
        if not reads and not writes:
            yield node.name


def write_notes(
    distributions: Mapping[str, Distribution],
    params: Mapping[str, TensorQuantParams],
    options: QuantizeOptions,
) -> Iterator[str]:
    """Yield a note for each constant tensor, each clamped sign and each far outlier."""
    if not params:
        yield "no tensor is quantized: the network stays float32"
    for name, one in sorted(distributions.items()):
        if name not in params:
            continue
        if one.lowest == one.highest:
            yield f"tensor '{name}' was {one.lowest:g} in all calibration samples"
            continue
        if options.scheme == "pow2" and params[name].dtype.startswith("u") and one.lowest < 0:
            yield (
                f"tensor '{name}' reaches down to {one.lowest:g}: {params[name].dtype} with zero "
                "point 0, as `pow2` requires, clamps all negative values"
            )
        if options.calibration.method != "minmax":
            continue
        ratio = compute_outlier_ratio(one)
        if ratio >= OUTLIER_RATIO:
            yield (
                f"tensor '{name}' reaches {ratio:.0f} times as far as 99.9 % of its values; "
                "`calibration: {method: percentile}` or mse keeps more of these values"
            )


def compute_outlier_ratio(one: Distribution) -> float:
    """Return the largest magnitude divided by the 99.9th percentile of the magnitudes."""
    reach = max(abs(one.lowest), abs(one.highest))
    magnitudes = np.maximum(np.abs(one.edges[:-1]), np.abs(one.edges[1:]))
    order = np.argsort(magnitudes, kind="stable")
    covered = np.cumsum(one.counts[order]) / one.counts.sum()
    return float(reach / magnitudes[order][np.searchsorted(covered, OUTLIER_QUANTILE)])
