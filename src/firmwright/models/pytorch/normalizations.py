"""Imports normalizations whose input and parameters have different types, or lack parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from tvm import relax

from firmwright.ir.relax import dtype_of, static_shape

Converter = Callable[[torch.fx.Node], relax.Expr]


def normalize_groups(importer: Any, node: torch.fx.Node) -> relax.Var:
    """Normalize groups. TVM's importer requires weights and biases, but they are optional."""
    x, weights, biases, _, channels, _, groups, epsilon = node.args
    data = importer.env[x]
    kind = dtype_of(data)
    scale = importer.env.get(weights, relax.const(np.ones(channels), kind))
    shift = importer.env.get(biases, relax.const(np.zeros(channels), kind))
    axes = list(range(2, len(static_shape(data))))
    return importer.block_builder.emit(
        relax.op.nn.group_norm(data, scale, shift, groups, 1, axes, epsilon)
    )


def compute_in_parameter_type(importer: Any, convert: Converter) -> Converter:
    """Return a converter that computes in the parameters' type, and rounds the result once.

    Under autocast, inputs have 16 bits and parameters are float32. TVM requires one type.
    """

    def converted(node: torch.fx.Node) -> relax.Expr:
        source = node.args[0]
        x = importer.env[source]
        kinds = [dtype_of(importer.env[a]) for a in node.args[1:] if isinstance(a, torch.fx.Node)]
        if not kinds or kinds[0] == dtype_of(x):
            return convert(node)
        importer.env[source] = importer.block_builder.emit(relax.op.astype(x, kinds[0]))
        result = convert(node)
        importer.env[source] = x
        return importer.block_builder.emit(relax.op.astype(result, dtype_of(x)))

    return converted


NORMALIZATIONS = (
    "_native_batch_norm_legit.no_stats",
    "_native_batch_norm_legit_no_training.default",
    "native_group_norm.default",
    "native_layer_norm.default",
)
