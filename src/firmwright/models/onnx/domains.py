"""Operators that ONNX Runtime's tools write under ONNX's name and ONNX does not have."""

from __future__ import annotations

import onnx
from onnx import helper

MICROSOFT_DOMAIN = "com.microsoft"

RUNTIME_OPERATORS = frozenset({"LayerNormalization", "SimplifiedLayerNormalization"})
"""ONNX Runtime has them in ONNX's domain, in every operator set; ONNX has one since opset 17."""


def name_domains(model: onnx.ModelProto) -> None:
    """Let the domain of such nodes be com.microsoft: ONNX's checker knows no such operators."""
    version = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
    moved = [
        node
        for node in model.graph.node
        if node.domain in ("", "ai.onnx")
        and node.op_type in RUNTIME_OPERATORS
        and not onnx.defs.has(node.op_type, version, "")
    ]
    for node in moved:
        node.domain = MICROSOFT_DOMAIN
    if moved and all(o.domain != MICROSOFT_DOMAIN for o in model.opset_import):
        model.opset_import.append(helper.make_opsetid(MICROSOFT_DOMAIN, 1))
