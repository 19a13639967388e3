"""Finds the layers of a quantized network that Vela may compile, and their activations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import floor
from typing import Any

import tvm

from firmwright.device import (
    QuantizedChain,
    StoredTensor,
    count_readers,
    find_quantized_chains,
    main_bindings,
    read_variables,
    short_name,
    static_shape,
)
from firmwright_ethos_u.hard_swish import find_hard_swishes
from firmwright_ethos_u.integer_layers import find_integer_operators
from firmwright_ethos_u.requantized import Requantized, find_requantized

WEIGHTED = ("conv2d", "matmul")
BINARY = ("add", "subtract", "multiply")
POOLED = ("avg_pool2d", "max_pool2d")
KINDS = (
    *WEIGHTED,
    *BINARY,
    *("avg_pool2d", "mean", "softmax", "sigmoid", "tanh"),
    *("relu", "leakyrelu", "clip", "abs", "image.resize2d"),
)
"""The names of operators on dequantized values that may run on the accelerator."""

FUSED = {
    **dict.fromkeys(WEIGHTED, ((), ("add",), ("relu",), ("add", "relu"))),
    **dict.fromkeys(BINARY, ((), ("relu",))),
}
"""The operators that may be between a layer's operator and the quantize operator."""

ACTIVATED = (*WEIGHTED, *BINARY, "avg_pool2d")
"""The operators that TFLite fuses with an activation."""

SAME, VALID, EXPLICIT = 0, 1, 2
NONE, RELU, RELU6 = 0, 1, 3
"""Numbers for paddings and activations in TFLite's schema. EXPLICIT is not part of the schema."""


@dataclass(frozen=True)
class Layer:
    """An operator of quantized tensors with its bias and its activation."""

    call: Any
    """The call of the operator in the module."""
    operator: Any
    """The variable of the call."""
    operands: tuple[StoredTensor, ...]
    """All operands. The bias of a convolution is the last operand."""
    result: StoredTensor
    variables: tuple[Any, ...]
    """All variables of the layer. The last variable is its result."""
    following: tuple[str, ...] = ()
    """The operators between the first operator and the quantize operator."""
    activation: int = NONE
    arithmetic: int = 0
    """The number of operators on dequantized values."""

    @property
    def kind(self) -> str:
        """Return the name of the operator. "quantize" only changes the quantization parameters."""
        return short_name(self.call)

    @property
    def inputs(self) -> Sequence[StoredTensor]:
        """Return the operands of the operator without weights and bias."""
        return self.operands[:1] if self.kind in WEIGHTED else self.operands

    @property
    def attributes(self) -> Any:
        return self.call.attrs

    @property
    def window(self) -> Sequence[int]:
        """Return height and width of the kernel of a convolution or a pooling."""
        if self.kind == "conv2d":
            return static_shape(self.operands[1].value)[:2]
        return [int(length) for length in self.attributes.pool_size]

    @property
    def padding(self) -> int:
        """Return the padding of TFLite that is equivalent to the explicit padding, or EXPLICIT."""
        pads = [int(pad) for pad in self.attributes.padding]
        if not any(pads):
            return VALID
        starts, ends = [], []
        for axis in (0, 1):
            length = static_shape(self.operands[0].value)[1 + axis]
            stride = int(self.attributes.strides[axis])
            size = (self.window[axis] - 1) * int(self.attributes.dilation[axis])
            total = max((-(-length // stride) - 1) * stride + size + 1 - length, 0)
            starts.append(total // 2)
            ends.append(total - total // 2)
        return SAME if pads == [*starts, *ends] else EXPLICIT


def find_layers(module: tvm.IRModule) -> list[Layer]:
    """Return the layers of `main` in order of execution. No two layers have a common variable."""
    layers = [*find_arithmetic_layers(module)]
    layers += [make_requantized(found, 1) for found in find_requantized(module)]
    layers += [make_requantized(found, 4) for found in find_hard_swishes(module)]
    known = {variable for layer in layers for variable in layer.variables}
    layers += [
        Layer(found.call, found.variables[-1], found.operands, found.result, found.variables)
        for found in find_integer_operators(module)
        if known.isdisjoint(found.variables)
    ]
    order = {binding.var: number for number, binding in enumerate(main_bindings(module))}
    return sorted(layers, key=lambda layer: order[layer.variables[-1]])


def make_requantized(found: Requantized, arithmetic: int) -> Layer:
    """Return a layer that ends with a quantize operator."""
    return Layer(
        *(found.call, found.variables[-1], found.operands, found.result, found.variables),
        arithmetic=arithmetic,
    )


def find_arithmetic_layers(module: tvm.IRModule) -> Iterator[Layer]:
    """Yield the operators of `main` with a quantized result, and a following clip."""
    uses = count_readers(module)
    clips = {
        variable: binding
        for binding in main_bindings(module)
        if short_name(binding.value) == "clip"
        for variable in read_variables(binding.value)
    }
    for chain in find_quantized_chains(module, KINDS, ["add", "relu"]):
        result = chain.variables[-1]
        clip = clips.get(result) if uses[result] == 1 else None
        rectified = len(chain.steps) > 1 and short_name(chain.steps[-1].call) == "relu"
        fits = short_name(chain.steps[0].call) in ACTIVATED and not rectified
        activation = find_activation(chain.result, clip.value) if clip and fits else None
        if clip is None or activation is None:
            yield make_layer(chain, chain.variables, RELU if rectified else NONE)
        else:
            yield make_layer(chain, (*chain.variables, clip.var), activation)


def make_layer(chain: QuantizedChain, variables: tuple[Any, ...], activation: int) -> Layer:
    return Layer(
        call=chain.steps[0].call,
        operator=chain.steps[0].variable,
        operands=tuple(stored for step in chain.steps for stored in step.operands if stored),
        result=chain.result,
        variables=variables,
        following=tuple(short_name(step.call) for step in chain.steps[1:]),
        activation=activation,
        arithmetic=len(chain.steps),
    )


def find_activation(result: StoredTensor, clip: Any) -> int | None:
    """Return the activation that clips integers to the bounds.

    Return None if TFLite does not have the activation.
    """
    if result.scale.size != 1:
        return None
    low, high = (int(bound.value) for bound in clip.args[1:])
    scale, zero = float(result.scale.item()), int(result.zero_point.item())
    limits = (-128, 127) if result.dtype == "int8" else (-32768, 32767)
    six = zero + floor(6 / scale + 0.5)  # TFLite rounds halves up
    known = {
        (max(limits[0], zero), min(limits[1], six)): RELU6,
        (max(limits[0], zero), limits[1]): RELU,
        limits: NONE,
    }
    return known.get((low, high))
