"""Finds the layers that Vela compiles, and merges them to the largest regions."""

from __future__ import annotations

from collections.abc import Sequence
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
from firmwright_ethos_u.layers import SAME, VALID, Layer, find_layers
from firmwright_ethos_u.regions import compile_layers, find_calls

CONVOLUTION, SUM, POOLING = ("conv2d",), ("add",), ("avg_pool2d",)
FUSED = {
    "conv2d": ([], ["add"], ["relu"], ["add", "relu"]),
    "add": ([], ["relu"]),
}
"""The operators that may come between a layer's operator and the quantize."""

RULES = (
    Rule("types", {"dtypes": {"are": "int8"}}, "its tensors are {dtypes}; Vela gets int8"),
    Rule("rounding", {"rounding": {"is": "tflite"}}, "it rounds by the rules of {rounding}"),
    Rule("layout", {"layout": {"is": "NHWC"}}, "its layout is {layout}; Vela gets NHWC"),
    Rule("scale", {"scales": {"are": 1}}, "its activations have several scales"),
    Rule("fusion", {"fused": {"is": True}}, "another operator comes between it and the quantize"),
    Rule("constant", {"constant": {"is": True}}, "its weights are computed", CONVOLUTION),
    Rule("symmetric", {"symmetric": {"is": True}}, "its weights have a zero point", CONVOLUTION),
    Rule("groups", {"groups": {"is": True}}, "it has groups of several channels", CONVOLUTION),
    Rule(
        "padding",
        {"padding": {"one_of": [SAME, VALID]}},
        "its padding is not SAME or VALID",
        (*CONVOLUTION, *POOLING),
    ),
    Rule("operands", {"computed": {"is": True}}, "one of its operands is a constant"),
    Rule("shapes", {"shapes": {"is": 1}}, "its operands have different shapes", SUM),
    Rule("rescale", {"grids": {"is": 1}}, "its input and output have different scales", POOLING),
    Rule("window", {"plain": {"is": True}}, "it counts padding, or has a dilation", POOLING),
    Rule("axis", {"last": {"is": True}}, "its axis is not the last one", ("softmax",)),
)


def place_layers(module: tvm.IRModule, context: Context) -> Placement:
    """Return a composite per region, and the rules that other layers break."""
    accepted, refused = [], {}
    for layer in find_layers(module):
        broken = find_broken_rules(layer, context)
        if broken:
            refused[layer.chain.steps[0].variable] = broken
        else:
            accepted.append(layer)
    composites = [Composite("network", (call.var,)) for call in find_calls(module)]
    order = {binding.var: number for number, binding in enumerate(main_bindings(module))}
    for region in merge_layers(module, accepted):
        variables = {variable for layer in region for variable in layer.variables}
        kinds = [layer.kind for layer in region]
        name = "conv2d" if "conv2d" in kinds else kinds[0]
        composites.append(Composite(name, tuple(sorted(variables, key=order.__getitem__))))
    return Placement(tuple(composites), refused)


def find_broken_rules(layer: Layer, context: Context) -> tuple[RuleViolation, ...]:
    """Return the rules that a layer breaks; Vela compiles it alone if it breaks none."""
    broken = find_violations(RULES, find_facts(layer, context.rounding))
    if broken:
        return broken
    inputs = list(dict.fromkeys(tensor.value for tensor in layer.inputs))
    try:
        compile_layers([layer], inputs, [layer.variables[-1]], context)
    except VelaError as error:
        return (RuleViolation("vela", str(error), operator=layer.kind),)
    return ()


def merge_layers(module: tvm.IRModule, layers: Sequence[Layer]) -> list[list[Layer]]:
    """Return the largest regions of layers; no path leads out of a region and back into it."""
    bindings = main_bindings(module)
    # A layer is one node, at the place of its result.
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
    tensors = [*layer.inputs, layer.chain.result]
    facts: dict[str, Any] = {
        "kind": layer.kind,
        "dtypes": [tensor.dtype for tensor in tensors],
        "rounding": rounding,
        "layout": "NHWC",
        "scales": [tensor.scale.size for tensor in tensors],
        "fused": layer.following in FUSED.get(layer.kind, ([],)),
        "computed": not any(tensor.is_constant for tensor in layer.inputs),
        "shapes": len({tuple(static_shape(tensor.value)) for tensor in layer.inputs}),
        "grids": len({(t.scale.tobytes(), t.zero_point.tobytes()) for t in tensors}),
    }
    if layer.kind == "conv2d":
        facts |= find_convolution_facts(layer)
    elif layer.kind in POOLING:
        attrs = layer.attributes
        plain = (
            not attrs.count_include_pad
            and not attrs.ceil_mode
            and [*map(int, attrs.dilation)] == [1, 1]
        )
        facts |= {"layout": str(attrs.layout), "plain": plain, "padding": layer.padding}
    elif layer.kind == "softmax":
        axes = len(static_shape(layer.inputs[0].value))
        facts["last"] = int(layer.attributes.axis) % axes == axes - 1
    return facts


def find_convolution_facts(layer: Layer) -> dict[str, Any]:
    """Return the facts about the constants and the attributes of a convolution."""
    source, weights, *bias = layer.operands
    channels = static_shape(source.value)[3]
    return {
        "layout": str(layer.attributes.data_layout),
        "dtypes": [tensor.dtype for tensor in (source, weights, layer.chain.result)],
        "constant": weights.is_constant and all(b.is_constant and b.dtype == "int32" for b in bias),
        "symmetric": not weights.zero_point.any(),
        "groups": int(layer.attributes.groups) in (1, channels),
        "padding": layer.padding,
    }
