"""Finds the layers of a quantized network that Vela may compile, each with its activation."""

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

KINDS = ("conv2d", "add", "avg_pool2d", "softmax")
"""The operators that may be on the accelerator, by their names in a module."""

SAME, VALID, EXPLICIT = 0, 1, 2
NONE, RELU, RELU6 = 0, 1, 3
"""Numbers of TFLite's schema for paddings (EXPLICIT is none of them) and for activations."""


@dataclass(frozen=True)
class Layer:
    """An operator of quantized tensors with its bias and its activation."""

    chain: QuantizedChain
    variables: tuple[Any, ...]
    """All variables of the layer; the last one is its result."""
    activation: int

    @property
    def kind(self) -> str:
        """Return the operator, one of `KINDS`."""
        return short_name(self.chain.steps[0].call)

    @property
    def following(self) -> list[str]:
        """Return the operators between the first one and the quantize."""
        return [short_name(step.call) for step in self.chain.steps[1:]]

    @property
    def operands(self) -> list[StoredTensor]:
        """Return all operands: the bias of a convolution is the last one."""
        return [stored for step in self.chain.steps for stored in step.operands if stored]

    @property
    def inputs(self) -> list[StoredTensor]:
        """Return the operands of the operator without weights and bias."""
        return self.operands[: 2 if self.kind == "add" else 1]

    @property
    def attributes(self) -> Any:
        """Return the attributes of the operator."""
        return self.chain.steps[0].call.attrs

    @property
    def window(self) -> Sequence[int]:
        """Return height and width of the kernel of a convolution or a pooling."""
        if self.kind == "conv2d":
            return static_shape(self.operands[1].value)[:2]
        return [int(length) for length in self.attributes.pool_size]

    @property
    def padding(self) -> int:
        """Return the padding of TFLite that has the effect of the explicit padding."""
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


def find_layers(module: tvm.IRModule) -> Iterator[Layer]:
    """Yield each operator of `main` with a quantized result, and the clip after it."""
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
        rectified = RELU if short_name(chain.steps[-1].call) == "relu" else NONE
        activation = None if clip is None else find_activation(chain.result, clip.value)
        if clip is None or activation is None or rectified:
            yield Layer(chain, chain.variables, rectified)
        else:
            yield Layer(chain, (*chain.variables, clip.var), activation)


def find_activation(result: StoredTensor, clip: Any) -> int | None:
    """Return the activation that clips int8 to these bounds; None if TFLite has none."""
    if result.scale.size != 1:
        return None
    low, high = (int(bound.value) for bound in clip.args[1:])
    scale, zero = float(result.scale.item()), int(result.zero_point.item())
    six = zero + floor(6 / scale + 0.5)  # TFLite rounds halves up
    known = {
        (max(-128, zero), min(127, six)): RELU6,
        (max(-128, zero), 127): RELU,
        (-128, 127): NONE,
    }
    return known.get((low, high))
