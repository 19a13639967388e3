"""Chooses quantization parameters for the weights of convolutions and matrix products."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import onnx

from firmwright.ir.quant_params import QuantParams, find_integer_limits
from firmwright.quantize import weight_blocks
from firmwright.quantize.chosen_layers import LayerChoice
from firmwright.quantize.clusters import (
    STORED,
    choose_clusters,
    find_stored_type,
    round_to_values,
    spread_scales,
)
from firmwright.quantize.float_graph import read_attributes
from firmwright.quantize.param_choice import FINER_SCALES, next_power_of_two, to_float32

BIAS_STEPS = 2.0**30
"""Half of the limit of a bias, which is an int32 number of steps of input scale · weight scale."""
DEAD_BIAS_STEPS = 2.0**20
"""The number of steps for the bias of a channel whose weights are all zero.

The number decides only the resolution.
"""
CLIPPED_RANGES = tuple(part / 20 for part in range(20, 3, -1))
"""The parts of the range of narrow weights that are tried. Few steps have large errors between
them, so it can be better to clamp the largest weights.
"""
NARROW_TYPES = ("int2", "int3", "int5", "int6", "int7")
WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")


@dataclass(frozen=True)
class Weight:
    """A constant operand. ``axis`` is the axis of the output channels.

    ``axis`` is None for transposed convolutions in groups, because their channels share the
    parameters. ``bias`` is empty if there is no bias. ``inputs_axis`` is the axis of the input
    channels. ``block`` is the number of input channels that share a factor, or 0.
    """

    name: str
    values: npt.NDArray[np.float64]
    axis: int | None
    input: str
    bias: npt.NDArray[np.float64]
    dtype: str
    layer: str
    inputs_axis: int
    block: int

    @property
    def has_blocks(self) -> bool:
        """Return whether the weights have several blocks per output channel."""
        channels = 1 if self.axis is None else self.values.shape[self.axis]
        has_block = 0 < self.block <= self.values.shape[self.inputs_axis]
        return (
            self.dtype == weight_blocks.TYPE
            and has_block
            and self.values.size // channels > self.block
        )

    @property
    def stored_type(self) -> str:
        return STORED if self.has_blocks else find_stored_type(self.dtype)

    def choose_factors(self, params: Sequence[QuantParams]) -> npt.NDArray[np.float64] | None:
        """Return the factor of each weight, or None if the weights have no blocks."""
        if not self.has_blocks:
            return None
        weight_blocks.check_blocks(self.layer, self.values.shape[self.inputs_axis], self.block)
        steps = self.values / spread_scales(self.values.ndim, self.axis, params)
        return weight_blocks.choose_factors(steps, self.block, self.inputs_axis)

    def split_channels(self, per_channel: bool) -> list[npt.NDArray[np.float64]]:
        if not per_channel or self.axis is None:
            return [self.values.reshape(-1)]
        return list(
            np.moveaxis(self.values, self.axis, 0).reshape(self.values.shape[self.axis], -1)
        )


def find_weights(model: onnx.ModelProto, layers: LayerChoice) -> Iterator[Weight]:
    """Yield the constant second operand of every quantized convolution and matrix product."""
    constants = {i.name: i for i in model.graph.initializer}
    seen: set[str] = set()

    def array(name: str) -> npt.NDArray[np.float64]:
        return onnx.numpy_helper.to_array(constants[name]).astype("float64")

    for node in model.graph.node:
        if node.op_type not in WEIGHTED or node.name in layers.kept_float:
            continue
        if node.input[1] not in constants or node.input[1] in seen:
            continue
        seen.add(node.input[1])
        given = len(node.input) > 2 and node.input[2] in constants
        values, axis = array(node.input[1]), channel_axis(node)
        yield Weight(
            name=node.input[1],
            values=values,
            axis=None if axis is None else axis % values.ndim,
            input=node.input[0],
            bias=array(node.input[2]).reshape(-1) if given else np.zeros(0),
            dtype=layers.types[node.name].weights,
            layer=node.name,
            inputs_axis=find_inputs_axis(node, values.ndim),
            block=0 if node.op_type == "ConvTranspose" else layers.block,
        )


def find_inputs_axis(node: onnx.NodeProto, axes: int) -> int:
    """Return the axis of the input channels in the node's second operand."""
    if node.op_type == "Conv":
        return 1
    if node.op_type == "Gemm":
        return 1 if read_attributes(node).get("transB", 0) else 0
    return max(axes - 2, 0)


def is_narrow(dtype: str) -> bool:
    """Return whether int8 stores weights of this type, because ONNX Runtime has no such type."""
    return dtype in NARROW_TYPES


def choose_all_clusters(
    params_of: Mapping[str, Sequence[QuantParams]], weights: Iterable[Weight]
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the values of each clustered tensor. Other tensors are missing."""
    all_clusters = {}
    for weight in weights:
        if weight.name in params_of:
            scales = spread_scales(weight.values.ndim, weight.axis, params_of[weight.name])
            clusters = choose_clusters(weight.values / scales, weight.dtype)
            if clusters is not None:
                all_clusters[weight.name] = clusters
    return all_clusters


def choose_all_factors(
    params_of: Mapping[str, Sequence[QuantParams]], weights: Iterable[Weight]
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the factors of each tensor with blocks. Other tensors are missing."""
    all_factors = {
        w.name: w.choose_factors(params_of[w.name]) for w in weights if w.name in params_of
    }
    return {name: factors for name, factors in all_factors.items() if factors is not None}


def clamp_weights(
    model: onnx.ModelProto,
    params_of: Mapping[str, Sequence[QuantParams]],
    weights: Iterable[Weight],
    clusters: Mapping[str, npt.NDArray[np.float64]],
    factors: Mapping[str, npt.NDArray[np.float64]],
) -> onnx.ModelProto:
    """Round and clamp narrow and clustered weights, and blocks, to the values of their types."""
    result = deepcopy(model)
    constants = {i.name: i for i in result.graph.initializer}
    for weight in weights:
        cluster_values, factor = clusters.get(weight.name), factors.get(weight.name)
        is_rounded = is_narrow(weight.dtype) or cluster_values is not None or factor is not None
        if weight.name not in params_of or not is_rounded:
            continue
        params = params_of[weight.name]
        values = onnx.numpy_helper.to_array(constants[weight.name]).astype("float64")
        scales = spread_scales(values.ndim, weight.axis, params)
        values = round_to_values(values / scales, params[0], cluster_values, factor) * scales
        tensor = onnx.numpy_helper.from_array(values.astype("float32"), weight.name)
        constants[weight.name].CopyFrom(tensor)
    return result


def channel_axis(node: onnx.NodeProto) -> int | None:
    """Return the axis of output channels in the node's second operand, or None."""
    attributes = read_attributes(node)
    if node.op_type == "Conv":
        return 0
    if node.op_type == "ConvTranspose":
        return 1 if attributes.get("group", 1) == 1 else None
    if node.op_type == "Gemm":
        return 0 if attributes.get("transB", 0) else 1
    return -1 if node.op_type == "MatMul" else None


def choose_weight_params(
    weight: Weight, input_scale: float, per_channel: bool, powers_of_two: bool
) -> list[QuantParams]:
    """Return the quantization parameters per channel, or one for all channels. Zero points are 0.

    Powers of two are selected by the minimum squared error of the channel. Each scale is so large
    that the bias fits int32.
    """
    channels, dtype = weight.split_channels(per_channel), weight.stored_type
    by_channel = per_channel and weight.bias.size == len(channels)
    biases = [np.abs(b).reshape(-1) for b in (weight.bias if by_channel else [weight.bias])]
    biases += [np.zeros(0)] * (len(channels) - len(biases))
    params_of = [
        choose_channel_params(
            values, float(bias.max(initial=0.0)) / input_scale, dtype, powers_of_two
        )
        for values, bias in zip(channels, biases, strict=True)
    ]
    if weight.has_blocks and not powers_of_two:
        coarser = find_integer_limits(dtype)[1] / weight_blocks.LARGEST_STEPS
        params_of = [replace(p, scale=to_float32(p.scale * coarser)) for p in params_of]
    return params_of


def choose_channel_params(
    values: npt.NDArray[np.float64], bias: float, dtype: str, powers_of_two: bool
) -> QuantParams:
    """Return one channel's parameters.

    ``bias`` is the channel's maximum bias in steps of the input's scale.
    """
    largest = find_integer_limits(dtype)[1]
    scale = float(np.abs(values).max(initial=0.0)) / largest
    if scale == 0.0:
        scale = bias / DEAD_BIAS_STEPS or 1.0
    least = bias / BIAS_STEPS
    if powers_of_two:
        candidates = [next_power_of_two(scale) / 2**n for n in range(FINER_SCALES + 1)]
        allowed = [c for c in candidates if c >= least] or [next_power_of_two(least)]
    else:
        parts = CLIPPED_RANGES if is_narrow(dtype) else (1.0,)
        allowed = [to_float32(max(scale * part, least)) for part in parts]
    params_of = [QuantParams(dtype, c, 0) for c in allowed]
    return min(
        params_of, key=lambda params: float(np.square(values - params.fake_quantize(values)).sum())
    )
