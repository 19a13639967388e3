"""Finds the convolutions that Vela compiles, and joins them to runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm

from firmwright.device import (
    Composite,
    Context,
    Placement,
    Rule,
    RuleViolation,
    count_readers,
    find_violations,
    main_bindings,
    static_shape,
)
from firmwright_ethos_u.errors import VelaError
from firmwright_ethos_u.layers import SAME, VALID, Layer, find_layers
from firmwright_ethos_u.regions import compile_layers, find_calls

RULES = (
    Rule("types", {"dtypes": {"are": "int8"}}, "its tensors are {dtypes}; Vela gets int8"),
    Rule("rounding", {"rounding": {"is": "tflite"}}, "it rounds by the rules of {rounding}"),
    Rule("layout", {"layout": {"is": "NHWC"}}, "its layout is {layout}; Vela gets NHWC"),
    Rule("constant", {"constant": {"is": True}}, "its weights or its bias are not constant"),
    Rule("groups", {"groups": {"is": True}}, "it has groups of several channels"),
    Rule("padding", {"padding": {"one_of": [SAME, VALID]}}, "its padding is not SAME or VALID"),
)


def place_convolutions(module: tvm.IRModule, context: Context) -> Placement:
    """Return a composite per run of convolutions, and the rules that other convolutions break."""
    accepted, refused = [], {}
    for layer in find_layers(module):
        broken = find_broken_rules(layer, context)
        if broken:
            refused[layer.chain.steps[0].variable] = broken
        else:
            accepted.append(layer)
    order = {binding.var: number for number, binding in enumerate(main_bindings(module))}
    composites = [Composite("network", (call.var,)) for call in find_calls(module)]
    for run in join_layers(accepted, count_readers(module)):
        variables = {variable for layer in run for variable in layer.variables}
        composites.append(Composite("conv2d", tuple(sorted(variables, key=order.__getitem__))))
    return Placement(tuple(composites), refused)


def find_broken_rules(layer: Layer, context: Context) -> tuple[RuleViolation, ...]:
    """Return the rules that a convolution breaks; Vela compiles it alone if it breaks none."""
    broken = find_violations(RULES, find_facts(layer, context.rounding))
    if broken:
        return broken
    try:
        compile_layers([layer], context)
    except VelaError as error:
        return (RuleViolation("vela", str(error), operator="conv2d"),)
    return ()


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
