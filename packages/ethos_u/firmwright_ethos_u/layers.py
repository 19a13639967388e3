"""Finds quantized convolutions that Vela compiles, and joins them to runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import tvm

from firmwright.device import (
    Composite,
    Context,
    Placement,
    QuantizedChain,
    Rule,
    StoredTensor,
    UserError,
    count_readers,
    find_quantized_chains,
    find_violations,
    main_bindings,
    read_variables,
    short_name,
    static_shape,
)

SAME, VALID, EXPLICIT = 0, 1, 2
NONE, RELU, RELU6 = 0, 1, 3
"""Numbers of TFLite's schema for paddings (EXPLICIT is none of them) and for activations."""

BOARD = "posix"
RULES = (
    Rule("types", {"dtypes": {"are": "int8"}}, "its tensors are {dtypes}; Vela gets int8"),
    Rule("rounding", {"rounding": {"is": "tflite"}}, "it rounds by the rules of {rounding}"),
    Rule("layout", {"layout": {"is": "NHWC"}}, "its layout is {layout}; Vela gets NHWC"),
    Rule("constant", {"constant": {"is": True}}, "its weights or its bias are not constant"),
    Rule("groups", {"groups": {"is": True}}, "it has groups of several channels"),
    Rule("padding", {"padding": {"one_of": [SAME, VALID]}}, "its padding is not SAME or VALID"),
)


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


def place_convolutions(module: tvm.IRModule, context: Context) -> Placement:
    """Return a composite per run of convolutions, and the rules that other convolutions break.

    Raises UserError if the board has no simulator.
    """
    if context.platform.board != BOARD:
        raise UserError(
            f"ethos_u: board '{context.platform.board}' has no driver for the Ethos-U; expected "
            f"a platform with board: {BOARD}, which runs the simulator"
        )
    accepted, refused = [], {}
    for layer in find_layers(module):
        broken = find_violations(RULES, find_facts(layer, context.rounding))
        if broken:
            refused[layer.chain.steps[0].variable] = broken
        else:
            accepted.append(layer)
    order = {binding.var: number for number, binding in enumerate(main_bindings(module))}
    composites = []
    for run in join_layers(accepted, count_readers(module)):
        variables = {variable for layer in run for variable in layer.variables}
        composites.append(Composite("conv2d", tuple(sorted(variables, key=order.__getitem__))))
    return Placement(tuple(composites), refused)


def join_layers(layers: list[Layer], uses: Mapping[Any, int]) -> list[list[Layer]]:
    """Return runs of layers: each layer is the only reader of the layer before it."""
    runs: list[list[Layer]] = []
    ends: dict[Any, list[Layer]] = {}
    for layer in layers:
        run = ends.pop(layer.operands[0].value, None)
        if run is None:
            run = []
            runs.append(run)
        run.append(layer)
        if uses[layer.variables[-1]] == 1:
            ends[layer.variables[-1]] = run
    return runs


def find_facts(layer: Layer, rounding: str) -> dict[str, Any]:
    """Return the facts of a convolution for the rules."""
    source, weights, bias = layer.operands
    groups = int(layer.attributes.groups)
    constant = weights.is_constant and not weights.zero_point.any() and len(layer.chain.steps) <= 2
    if bias is not None:
        constant = constant and bias.is_constant and bias.dtype == "int32"
    return {
        "kind": "conv2d",
        "dtypes": [tensor.dtype for tensor in (source, weights, layer.chain.result)],
        "rounding": rounding,
        "layout": str(layer.attributes.data_layout),
        "constant": constant,
        "groups": groups in (1, static_shape(source.value)[3]),
        "padding": layer.padding,
    }
