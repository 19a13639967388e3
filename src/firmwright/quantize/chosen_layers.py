"""Resolves a recipe's patterns to layers, and to the types of each tensor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

import onnx

from firmwright.errors import UserError, did_you_mean
from firmwright.quantize.activations import find_fused_outputs
from firmwright.recipe.quantize_keys import QuantizeOptions

WEIGHT_OPERATORS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


@dataclass(frozen=True)
class TensorTypes:
    """The integer types of a layer's results and of its weights."""

    activations: str
    weights: str


@dataclass(frozen=True)
class LayerChoice:
    """The result of the recipe's layer lists: nodes that stay float, and the types of nodes.

    ``block`` is the number of input channels in a block of int4 weights, or 0.
    """

    kept_float: tuple[str, ...]
    types: dict[str, TensorTypes]
    block: int = 0


def choose_layers(model: onnx.ModelProto, options: QuantizeOptions) -> LayerChoice:
    """Resolve ``keep_float`` and ``layers``. Layers are named after their nodes or results.

    The ReLU or clip after a layer has the layer's types, because it computes the layer's result.
    Raises UserError with every pattern and operator type that matches no layer.
    """
    nodes = list(model.graph.node)
    names, kinds = {n.name for n in nodes}, {n.op_type for n in nodes}
    problems = []

    def match(key: str, pattern: str) -> list[str]:
        matches = match_nodes(nodes, pattern)
        if not matches:
            hint = did_you_mean(pattern, names)
            problems.append(f"quantize: {key}: no layer named '{pattern}'{hint}")
        return matches

    kept = {n for p in options.keep_float.layers for n in match("keep_float.layers", p)}
    for kind in options.keep_float.operators:
        kept.update(n.name for n in nodes if n.op_type == kind)
        if kind not in kinds:
            where = "quantize: keep_float.operators"
            hint = did_you_mean(kind, kinds)
            problems.append(f"{where}: no operator of the type '{kind}'{hint}")
    types = {n.name: TensorTypes(options.activations, options.weights) for n in nodes}
    for entry in options.layers:
        matches = match("layers", entry.match)
        kinds_found = {n.op_type for n in nodes if n.name in matches}
        if matches and entry.weights and not kinds_found.intersection(WEIGHT_OPERATORS):
            operators = ", ".join(WEIGHT_OPERATORS)
            problems.append(
                f"quantize: layers: '{entry.match}' has no weights; only {operators} have weights"
            )
        for name in (*matches, *find_fused_activations(model, matches)):
            before = types[name]
            types[name] = TensorTypes(
                entry.activations or before.activations, entry.weights or before.weights
            )
    if problems:
        raise UserError("\n".join(problems))
    return LayerChoice(tuple(sorted(kept)), types, options.block or 0)


def find_fused_activations(model: onnx.ModelProto, layers: Iterable[str]) -> set[str]:
    named, visible = set(layers), find_fused_outputs(model)
    results = [o for n in model.graph.node if n.name in named for o in n.output]
    shown = {visible[name] for name in results}
    return {n.name for n in model.graph.node if shown.intersection(n.output)} - named


def match_nodes(nodes: Iterable[onnx.NodeProto], pattern: str) -> list[str]:
    """Return the nodes that match a pattern. An exact name always matches itself."""
    shell = pattern.replace("[", "[[]")  # only * and ? are special in names, unlike in a shell
    return [
        node.name
        for node in nodes
        if any(name == pattern or fnmatchcase(name, shell) for name in (node.name, *node.output))
    ]
