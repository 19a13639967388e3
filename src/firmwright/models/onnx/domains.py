"""Which domain and operator set the nodes of a model are of.

ONNX Runtime's tools write operators under ONNX's name that ONNX does not have.
"""

from __future__ import annotations

import onnx
from onnx import helper

MICROSOFT_DOMAIN = "com.microsoft"

RUNTIME_OPERATORS = frozenset({"LayerNormalization", "SimplifiedLayerNormalization"})
"""ONNX Runtime has them in ONNX's domain, in every operator set; ONNX has one since opset 17."""


QONNX_HINT = (
    "the model is in the QONNX dialect: export it with brevitas.export.export_onnx_qcdq, which "
    "writes QuantizeLinear, Clip and DequantizeLinear"
)
DIALECTS = dict.fromkeys(("onnx.brevitas", "qonnx.custom_op.general"), QONNX_HINT)
"""What to do with operators of other domains, by domain."""

LEAST_INPUTS = {
    name: count
    for count, names in {
        1: "FastGelu Gelu MultiHeadAttention QuickGelu",
        2: "Attention BiasGelu FusedConv FusedGemm FusedMatMul LayerNormalization "
           "SimplifiedLayerNormalization TransposeMatMul",
        3: "DynamicQuantizeMatMul MatMulNBits QLinearConcat SkipLayerNormalization "
           "SkipSimplifiedLayerNormalization",
        4: "MatMulIntegerToFloat QLinearAveragePool QLinearLeakyRelu QLinearSigmoid "
           "RotaryEmbedding",
        5: "QAttention QLinearGlobalAveragePool QLinearSoftmax",
        6: "QGemm",
        7: "EmbedLayerNormalization QLinearAdd QLinearMul",
        9: "QLinearWhere",
        12: "DynamicQuantizeLSTM",
        18: "QEmbedLayerNormalization",
    }.items()
    for name in names.split()
}  # fmt: skip
"""How many inputs an operator of com.microsoft has at least; ONNX's checker does not know them."""


def get_opset(model: onnx.ModelProto) -> int:
    """Return the version of ONNX's operator set; that of a model that states none is 1."""
    return next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)


def has_runtime_operators(model: onnx.ModelProto) -> bool:
    return any(node.domain == MICROSOFT_DOMAIN for node in model.graph.node)


def name_domains(model: onnx.ModelProto) -> None:
    """Let the domain of such nodes be com.microsoft: ONNX's checker knows no such operators."""
    version = get_opset(model)
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
