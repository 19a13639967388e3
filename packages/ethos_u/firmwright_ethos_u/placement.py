"""Finds the layers that Vela compiles, and merges them into the largest regions."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import tvm

from firmwright.device import (
    Composite,
    Context,
    Placement,
    Rule,
    RuleViolation,
    find_violations,
    main_bindings,
    merge_acyclic,
    read_variables,
    static_shape,
)
from firmwright_ethos_u.errors import VelaError
from firmwright_ethos_u.integer_layers import MOVES
from firmwright_ethos_u.layers import (
    BINARY,
    FUSED,
    POOLED,
    SAME,
    VALID,
    WEIGHTED,
    Layer,
    find_layers,
)
from firmwright_ethos_u.regions import compile_layers, find_calls

CONVOLUTION = ("conv2d",)
BIASES = ("int32", "int64")
RULES = (
    Rule("types", {"type": {"one_of": ["int8", "int16"]}}, "its tensors are {type}"),
    Rule(
        "function",
        {"type": {"is": "int8"}},
        "the accelerator's function for {type} is not published",
        ("sigmoid", "tanh"),
    ),
    Rule(
        "scale16",
        {"type": {"is": "int8"}},
        "Vela rounds the scale of {type} to 16 bits, and LiteRT does not",
        ("matmul",),
    ),
    Rule(
        "difference",
        {"type": {"is": "int8"}},
        "the accelerator's results of {type} differ from LiteRT's by 1",
        ("abs",),
    ),
    Rule("rounding", {"rounding": {"is": "tflite"}}, "it rounds by the rules of {rounding}"),
    Rule("layout", {"layout": {"is": "NHWC"}}, "its layout is {layout}; Vela gets NHWC"),
    Rule("scale", {"scales": {"are": 1}}, "its activations have several scales"),
    Rule("fusion", {"fused": {"is": True}}, "another operator comes between it and the quantize"),
    Rule("constant", {"constant": {"is": True}}, "its weights are computed", WEIGHTED),
    Rule("symmetric", {"symmetric": {"is": True}}, "its weights have a zero point", WEIGHTED),
    Rule("groups", {"groups": {"is": True}}, "it has groups of several channels", CONVOLUTION),
    Rule(
        "padding",
        {"padding": {"one_of": [SAME, VALID]}},
        "its padding is not SAME or VALID",
        (*CONVOLUTION, *POOLED),
    ),
    Rule("operands", {"computed": {"is": True}}, "one of its operands is a constant"),
    Rule(
        "rescale",
        {"parameters": {"is": 1}},
        "its operands and its result have different quantization parameters",
        ("avg_pool2d", "image.resize2d", "concat", "minimum", "maximum"),
    ),
    Rule("window", {"plain": {"is": True}}, "it counts padding, or has a dilation", POOLED),
    Rule("axis", {"last": {"is": True}}, "its axis is not the last one", ("softmax",)),
    Rule("bounds", {"bounds": {"one_of": [[0, 6], [-1, 1]]}}, "its bounds are {bounds}", ("clip",)),
    Rule(
        "slope",
        {"slope": {"within": [0, inf]}},
        "its slope is {slope}; the accelerator rounds the products of negative slopes differently",
        ("leakyrelu",),
    ),
    Rule("method", {"method": {"is": "linear"}}, "its method is {method}", ("image.resize2d",)),
    Rule("zero", {"pads_zero": {"is": True}}, "it pads with a value other than zero", ("pad",)),
)


ALONE = RuleViolation("alone", "it computes nothing, and no neighbor runs on the device")
"""The reason to reject regions that only copy values. A job costs more than the copy."""


def place_layers(module: tvm.IRModule, context: Context) -> Placement:
    """Return a composite per region, and the rules that other layers violate."""
    layers = find_layers(module)
    refused = {}
    for layer in layers:
        if broken := find_violations(RULES, find_facts(layer, context.rounding)):
            refused[layer.operator] = broken
    compiled: set[tuple[Any, ...]] = set()  # the operators of each region
    while True:
        regions = merge_layers(module, [each for each in layers if each.operator not in refused])
        refused |= {each.operator: (ALONE,) for region in regions for each in find_idle(region)}
        rejected = {
            operator: broken
            for region in regions
            if list_operators(region) not in compiled and not find_idle(region)
            for operator, broken in find_rejected(region, context).items()
        }
        if not rejected:
            break
        refused |= rejected
        compiled |= {*map(list_operators, regions)}
    composites = [Composite("network", (call.var,)) for call in find_calls(module)]
    order = {binding.var: number for number, binding in enumerate(main_bindings(module))}
    for region in regions:
        kinds = [layer.kind for layer in region]
        if not find_idle(region):
            variables = {variable for layer in region for variable in layer.variables}
            name = "conv2d" if "conv2d" in kinds else kinds[0]
            composites.append(Composite(name, tuple(sorted(variables, key=order.__getitem__))))
    return Placement(tuple(composites), refused)


def list_operators(region: Sequence[Layer]) -> tuple[Any, ...]:
    return tuple(layer.operator for layer in region)


def find_idle(region: Sequence[Layer]) -> Sequence[Layer]:
    """Return the layers of a region that only moves values. Return [] for other regions."""
    return region if all(layer.kind in MOVES for layer in region) else []


def find_rejected(
    region: Sequence[Layer], context: Context
) -> dict[Any, tuple[RuleViolation, ...]]:
    """Return the layers that Vela rejects, and Vela's sentences.

    Each layer is compiled separately only if Vela rejects the region. If Vela rejects no single
    layer, all layers of the region are rejected.
    """
    problem = compile_region(region, context)
    if not problem:
        return {}
    alone = {layer.operator: compile_region([layer], context) for layer in region}
    kinds = {layer.operator: layer.kind for layer in region}
    sentences = {operator: sentence for operator, sentence in alone.items() if sentence}
    return {
        operator: (RuleViolation("vela", sentence, operator=kinds[operator]),)
        for operator, sentence in (sentences or dict.fromkeys(alone, problem)).items()
    }


def compile_region(region: Sequence[Layer], context: Context) -> str:
    """Return Vela's sentence if Vela rejects the layers. Otherwise return ''."""
    results = [layer.variables[-1] for layer in region]
    read = [t.value for layer in region for t in layer.inputs if not t.is_constant]
    inputs = [value for value in dict.fromkeys(read) if value not in results]
    outputs = [value for value in results if value not in read]
    try:
        compile_layers(region, inputs, outputs, context)
    except VelaError as error:
        return str(error)
    return ""


def merge_layers(module: tvm.IRModule, layers: Sequence[Layer]) -> list[list[Layer]]:
    """Return the largest regions of layers. No path leaves a region and returns to the region."""
    bindings = main_bindings(module)
    # A layer is one node at the position of its result.
    owners = {variable: layer.variables[-1] for layer in layers for variable in layer.variables}
    nodes = [b.var for b in bindings if owners.get(b.var, b.var) == b.var]
    reads: dict[Any, list[Any]] = {node: [] for node in nodes}
    for binding in bindings:
        node = owners.get(binding.var, binding.var)
        read = (owners.get(variable, variable) for variable in read_variables(binding.value))
        reads[node] += [other for other in read if other in reads and other != node]
    results = {layer.variables[-1]: layer for layer in layers}
    regions = merge_acyclic(nodes, reads, {*results})
    return [[results[node] for node in region] for region in regions]


def find_facts(layer: Layer, rounding: str) -> dict[str, Any]:
    """Return the facts of a layer for the rules."""
    tensors = [*layer.inputs, layer.result]
    facts: dict[str, Any] = {
        "kind": layer.kind,
        "type": " and ".join(dict.fromkeys(tensor.dtype for tensor in tensors)),
        "rounding": rounding if layer.arithmetic else "tflite",
        "layout": "NHWC",
        "scales": [tensor.scale.size for tensor in tensors],
        "fused": layer.following in FUSED.get(layer.kind, ((),)),
        "computed": layer.kind in (*BINARY, "minimum", "maximum")
        or not any(tensor.is_constant for tensor in layer.inputs),
        "parameters": len({(t.scale.tobytes(), t.zero_point.tobytes()) for t in tensors}),
        "bounds": [0, 6],
    }
    if layer.kind in WEIGHTED:
        facts |= find_weight_facts(layer)
    if layer.kind == "conv2d":
        channels = static_shape(layer.operands[0].value)[3]
        groups = int(layer.attributes.groups) in (1, channels)
        layout = str(layer.attributes.data_layout)
        facts |= {"layout": layout, "groups": groups, "padding": layer.padding}
    elif layer.kind in POOLED:
        facts |= find_window_facts(layer)
    elif layer.kind == "softmax":
        axes = len(static_shape(layer.inputs[0].value))
        facts["last"] = int(layer.attributes.axis) % axes == axes - 1
    elif layer.kind == "clip" and layer.arithmetic:
        facts["bounds"] = [float(bound.value) for bound in layer.call.args[1:]]
    elif layer.kind == "leakyrelu":
        facts["slope"] = float(layer.attributes.alpha)
    elif layer.kind == "image.resize2d":
        facts |= {"layout": str(layer.attributes.layout), "method": str(layer.attributes.method)}
    elif layer.kind == "pad":
        attrs = layer.attributes
        zero = attrs.pad_mode == "constant" and attrs.pad_value == layer.result.zero_point.item()
        facts["pads_zero"] = bool(zero)
    return facts


def find_weight_facts(layer: Layer) -> dict[str, Any]:
    """Return the facts about the constants of a convolution or a dense layer."""
    _, weights, *biases = layer.operands
    constant = weights.is_constant and weights.dtype == "int8"
    return {
        "constant": constant and all(b.is_constant and b.dtype in BIASES for b in biases),
        "symmetric": not weights.zero_point.any(),
    }


def find_window_facts(layer: Layer) -> dict[str, Any]:
    attrs = layer.attributes
    dilated = [*map(int, attrs.dilation)] != [1, 1]
    return {
        "layout": str(attrs.layout),
        "plain": not (attrs.count_include_pad or attrs.ceil_mode or dilated),
        "padding": layer.padding,
    }
