"""Makes a QDQ graph of a float ONNX graph with ONNX Runtime and firmwright's parameters."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np
import onnx
from onnxruntime.quantization import QuantType
from onnxruntime.quantization.calibrate import CalibrationMethod, TensorsData
from onnxruntime.quantization.onnx_model import ONNXModel
from onnxruntime.quantization.qdq_quantizer import QDQQuantizer
from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry

from firmwright.data.samples import Sample
from firmwright.ir.quant_params import QuantParams
from firmwright.models.onnx.graph.recurrent import name_without_step
from firmwright.quantize.activations import find_fused_outputs, simplify_activations
from firmwright.quantize.bias_correction import correct_biases
from firmwright.quantize.calibration import Distribution
from firmwright.quantize.chosen_layers import LayerChoice, choose_layers
from firmwright.quantize.param_choice import (
    GATE_RANGES,
    SOFTMAX_RANGE,
    Interval,
    choose_affine_params,
    choose_interval,
    choose_pow2_params,
    mean_squared_error,
)
from firmwright.quantize.shift_scales import AVERAGES, coarsen_scales
from firmwright.quantize.weight_rounding import round_weights
from firmwright.quantize.weights import (
    choose_all_clusters,
    choose_all_factors,
    choose_weight_params,
    clamp_weights,
    find_weights,
    is_narrow,
)
from firmwright.recipe.quantize_keys import QuantizeOptions

QUANT_TYPES = {
    "int8": QuantType.QInt8,
    "uint8": QuantType.QUInt8,
    "int16": QuantType.QInt16,
    "uint16": QuantType.QUInt16,
    "int4": QuantType.QInt4,
}

MOVEMENTS = ("Reshape", "Squeeze", "Transpose", "Unsqueeze")


class GraphQuantizer(QDQQuantizer):  # type: ignore[misc]
    """ONNX Runtime's quantizer with separate parameters for averages, and unique names of
    copies.
    """

    def quantize_output_same_as_input(self, output_name: str, input_name: str, node: str) -> None:
        maker = self.model.output_name_to_node()[output_name]
        if maker.op_type in AVERAGES:
            self.quantize_activation_tensor(output_name)
        else:
            super().quantize_output_same_as_input(output_name, input_name, node)

    def _dup_initializer(self, initializer: onnx.TensorProto) -> onnx.TensorProto:
        """Copy a bias that several layers read, such as the steps of a recurrent layer.

        ONNX Runtime appends a number to the name, and another tensor may have the resulting name.
        """
        source = onnx.TensorProto()
        source.CopyFrom(initializer)
        source.name = f"{initializer.name}/copy"
        copied: onnx.TensorProto = super()._dup_initializer(source)
        return copied


def quantize(
    model: onnx.ModelProto,
    distributions: Mapping[str, Distribution],
    options: QuantizeOptions,
    samples: Sequence[Sample] = (),
) -> onnx.ModelProto:
    """Return the QDQ graph with float32 inputs and outputs.

    ``model`` is a result of :func:`firmwright.quantize.float_graph.prepare`. ``distributions`` are
    the results of its calibration. ``samples`` are needed only to compensate rounding and to
    correct biases. Raises UserError if a layer list matches no layer.
    """
    layers = choose_layers(model, options)
    params_of = choose_activation_params(model, distributions, options, layers)
    if options.arithmetic == "shift":
        params_of = coarsen_scales(model, params_of, list(find_weights(model, layers)))
    weights = {
        w.name: choose_weight_params(
            w, params_of[w.input].scale, options.per_channel, options.scheme == "pow2"
        )
        for w in find_weights(model, layers)
        if w.input in params_of
    }

    def with_params(network: onnx.ModelProto) -> onnx.ModelProto:
        return insert_qdq_nodes(network, params_of, weights, layers, options)

    result = model
    clusters = choose_all_clusters(weights, find_weights(model, layers))
    factors = choose_all_factors(weights, find_weights(model, layers))
    if options.compensate_rounding:
        result = round_weights(result, samples, weights, clusters, factors)
    result = clamp_weights(result, weights, find_weights(model, layers), clusters, factors)
    if options.bias_correction:
        result = correct_biases(model, result, samples, layers, with_params)
    return with_params(result)


def insert_qdq_nodes(
    model: onnx.ModelProto,
    params_of: Mapping[str, QuantParams],
    weights: Mapping[str, Sequence[QuantParams]],
    layers: LayerChoice,
    options: QuantizeOptions,
) -> onnx.ModelProto:
    """Return the model with quantize and dequantize nodes around every layer that is not float."""
    overrides: dict[str, list[dict[str, Any]]] = {
        t: [make_override(g)] for t, g in params_of.items()
    }
    for weight in find_weights(model, layers):
        if weight.name in weights:
            by_channel = options.per_channel and weight.axis is not None
            axis = {"axis": weight.axis} if by_channel else {}
            overrides[weight.name] = [{**make_override(g), **axis} for g in weights[weight.name]]
    quantizer = GraphQuantizer(
        deepcopy(model),
        options.per_channel,
        False,
        # Weights without an override, such as the factors of a normalization, save no memory.
        QUANT_TYPES["int16" if options.weights == "int16" else "int8"],
        QUANT_TYPES[options.activations],
        # Only the names count, because the overrides state the quantization parameters.
        TensorsData(
            CalibrationMethod.MinMax, {t: (np.float32(0), np.float32(1)) for t in params_of}
        ),
        [],
        list(layers.kept_float),
        sorted({*QDQRegistry, *QLinearOpsRegistry, "PRelu"}),
        {
            "TensorQuantOverrides": overrides,
            "QDQKeepRemovableActivations": True,
            "QDQDisableWeightAdjustForInt32Bias": True,
        },
    )
    quantizer.model = IndexedModel(quantizer.model.model)
    with mute_logging():  # per-channel scales are requested for weights that may have no channels
        quantized: onnx.ModelProto = quantizer.quantize_model()
    simplify_activations(quantized)
    sort_depth_first(quantized.graph)
    return quantized


def sort_depth_first(graph: onnx.GraphProto) -> None:
    """Sort the nodes: each node follows its inputs, and the longest chain of inputs is first.

    This order keeps few tensors in memory, because a step of a recurrent layer ends before the next
    step begins.
    """
    depths: dict[str, int] = {}
    for node in order_depth_first(graph, depths):
        depth = 1 + max((depths.get(name, 0) for name in node.input), default=0)
        depths.update(dict.fromkeys(node.output, depth))
    ordered = order_depth_first(graph, depths)
    del graph.node[:]
    graph.node.extend(ordered)


def order_depth_first(graph: onnx.GraphProto, depths: Mapping[str, int]) -> list[onnx.NodeProto]:
    """Return the nodes that the outputs need, in order. The deepest inputs of a node are first."""
    made = {name: node for node in graph.node for name in node.output}
    wanted = [made[o.name] for o in reversed(graph.output) if o.name in made]
    ordered: dict[str, onnx.NodeProto] = {}
    opened: set[str] = set()
    while wanted:
        node = wanted.pop()
        key = node.output[0]
        if key in opened:
            ordered.setdefault(key, node)
            continue
        opened.add(key)
        wanted.append(node)
        reads = [name for name in node.input if name in made and name not in opened]
        reads.sort(key=lambda name: -depths.get(name, 0))
        wanted += [made[name] for name in reversed(reads)]
    return [*ordered.values()]


@contextmanager
def mute_logging() -> Iterator[None]:
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def make_override(params: QuantParams) -> dict[str, Any]:
    stored = "int8" if is_narrow(params.dtype) else params.dtype
    return {
        "quant_type": QUANT_TYPES[stored],
        "scale": np.array(params.scale, "float32"),
        "zero_point": np.array(params.zero_point, stored),
    }


def choose_activation_params(
    model: onnx.ModelProto,
    distributions: Mapping[str, Distribution],
    options: QuantizeOptions,
    layers: LayerChoice,
) -> dict[str, QuantParams]:
    """Return the quantization parameters of each float tensor that was calibrated."""
    makers = {o: n for n in model.graph.node for o in n.output}
    shown_by = find_fused_outputs(model)
    params_of: dict[str, QuantParams] = {}
    for name in distributions:
        visible = shown_by.get(name, name)
        maker = makers.get(visible)
        dtype = layers.types[maker.name].activations if maker else options.activations
        params_of[name] = choose_params(
            distributions[visible], dtype, options, get_fixed_range(maker)
        )
    for node in model.graph.node:
        parts = {params_of.get(find_unmoved(name, makers)) for name in node.input}
        if node.op_type == "Concat" and len(parts) == 1 and (common := parts.pop()):
            params_of[node.output[0]] = common
    return params_of


def get_fixed_range(maker: onnx.NodeProto | None) -> Interval | None:
    """Return the interval that the operator of a result defines, or None.

    The interval of a gate is also defined. The interval's steps are a power of two, so that
    products with other tensors are exact in float32.
    """
    if maker is None:
        return None
    if maker.op_type == "Softmax":
        return SOFTMAX_RANGE
    is_gate = name_without_step(maker.output[0]) != maker.output[0]
    return GATE_RANGES.get(maker.op_type) if is_gate else None


def find_unmoved(name: str, makers: Mapping[str, onnx.NodeProto]) -> str:
    """Return the tensor whose elements this tensor contains in another order or shape."""
    while name in makers and makers[name].op_type in (
        "Reshape",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    ):
        name = makers[name].input[0]
    return name


def choose_params(
    distribution: Distribution, dtype: str, options: QuantizeOptions, fixed: Interval | None
) -> QuantParams:
    """Return a tensor's parameters. ``fixed`` is the interval of its operator, or None."""

    def params(interval: Interval) -> QuantParams:
        if options.scheme == "pow2":
            searched = options.calibration.method == "mse" and fixed is None
            return choose_pow2_params(interval, dtype, distribution if searched else None)
        return choose_affine_params(interval, dtype, options.symmetric or dtype == "int16")

    def error(interval: Interval, values: Distribution) -> float:
        return mean_squared_error(params(interval), values)

    if fixed is not None:
        return params(fixed)
    if options.scheme == "pow2" and options.calibration.method == "mse":
        return params(Interval(min(distribution.lowest, 0.0), max(distribution.highest, 0.0)))
    return params(choose_interval(distribution, options.calibration, error))


class IndexedModel(ONNXModel):  # type: ignore[misc]
    """A model with an index of the readers of each tensor, which speeds up replacements."""

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__(model)
        self.readers: dict[str, list[onnx.NodeProto]] = defaultdict(list)
        self.indexed = 0  # the number of indexed nodes

    def replace_input_of_all_nodes(self, old_input_name: str, new_input_name: str) -> None:
        self.replace_input(old_input_name, new_input_name, None)

    def replace_input_of_nodes(
        self, old_input_name: str, new_input_name: str, node_names_set: Collection[str]
    ) -> None:
        self.replace_input(old_input_name, new_input_name, node_names_set)

    def replace_input(self, old: str, new: str, names: Collection[str] | None) -> None:
        """Replace a tensor that nodes read.

        Only the nodes in ``names`` change if ``names`` is not None.
        """
        for node in self.nodes()[self.indexed :]:
            for name in dict.fromkeys(node.input):
                self.readers[name].append(node)
        self.indexed = len(self.nodes())
        kept = []
        for node in self.readers.pop(old, []):
            if names is not None and node.name not in names:
                kept.append(node)
            else:
                self.replace_node_input(node, old, new)
                self.readers[new].append(node)
        if kept:
            self.readers[old] = kept
