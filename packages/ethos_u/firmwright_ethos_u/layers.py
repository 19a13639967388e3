"""Finds quantized convolutions with their bias and their activation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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

SAME, VALID, EXPLICIT = 0, 1, 2
NONE, RELU, RELU6 = 0, 1, 3
"""Numbers of TFLite's schema for paddings (EXPLICIT is none of them) and for activations."""


@dataclass(frozen=True)
class Layer:
    """A convolution with its bias and its activation."""

    chain: QuantizedChain
    variables: tuple[Any, ...]
    """All variables of the layer; the last one is its result."""
    activation: int

    @property
    def operands(self) -> tuple[StoredTensor, StoredTensor, StoredTensor | None]:
        """Return input, weights and bias; None if there is no bias."""
        source, weights = self.chain.steps[0].operands
        assert source is not None and weights is not None
        others = [stored for step in self.chain.steps[1:] for stored in step.operands if stored]
        return source, weights, others[0] if others else None

    @property
    def attributes(self) -> Any:
        """Return the attributes of the convolution."""
        return self.chain.steps[0].call.attrs

    @property
    def padding(self) -> int:
        """Return the padding of TFLite that has the effect of the explicit padding."""
        source, weights, _ = self.operands
        pads = [int(pad) for pad in self.attributes.padding]
        if not any(pads):
            return VALID
        starts, ends = [], []
        for axis in (0, 1):
            length = static_shape(source.value)[1 + axis]
            stride = int(self.attributes.strides[axis])
            size = (static_shape(weights.value)[axis] - 1) * int(self.attributes.dilation[axis])
            total = max((-(-length // stride) - 1) * stride + size + 1 - length, 0)
            starts.append(total // 2)
            ends.append(total - total // 2)
        return SAME if pads == [*starts, *ends] else EXPLICIT


def find_layers(module: tvm.IRModule) -> Iterator[Layer]:
    """Yield each convolution of `main` with a quantized result, and the clip after it."""
    uses = count_readers(module)
    clips = {
        read_variables(binding.value)[0]: binding
        for binding in main_bindings(module)
        if short_name(binding.value) == "clip"
    }
    for chain in find_quantized_chains(module, ["conv2d"], ["add"]):
        result = chain.variables[-1]
        clip = clips.get(result) if uses[result] == 1 else None
        activation = None if clip is None else find_activation(chain.result, clip.value)
        if clip is None or activation is None:
            yield Layer(chain, chain.variables, NONE)
        else:
            yield Layer(chain, (*chain.variables, clip.var), activation)


def find_activation(result: StoredTensor, clip: Any) -> int | None:
    """Return the activation that clips int8 to these bounds; None if TFLite has none."""
    low, high = (int(bound.value) for bound in clip.args[1:])
    scale, zero = float(result.scale.item()), int(result.zero_point.item())
    known = {
        (max(-128, zero), min(127, zero + round(6 / scale))): RELU6,
        (max(-128, zero), 127): RELU,
        (-128, 127): NONE,
    }
    return known.get((low, high))
