"""Determines the domains and the operator sets of a model's nodes.

ONNX Runtime's tools write operators in ONNX's domain that ONNX does not define.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import helper

MICROSOFT_DOMAIN = "com.microsoft"

RUNTIME_OPERATORS = frozenset({"LayerNormalization", "SimplifiedLayerNormalization"})
"""Operators that ONNX Runtime supports in ONNX's domain in each opset.

ONNX defines only LayerNormalization, since opset 17.
"""


QONNX_HINT = (
    "the model is in the QONNX dialect: export it with brevitas.export.export_onnx_qcdq, which "
    "writes QuantizeLinear, Clip and DequantizeLinear"
)
DIALECTS = dict.fromkeys(("onnx.brevitas", "qonnx.custom_op.general"), QONNX_HINT)
"""Maps the domains of other dialects to advice."""

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
"""The minimum number of inputs of com.microsoft's operators. ONNX's checker has no minimum."""


def get_opset(model: onnx.ModelProto) -> int:
    """Return the version of ONNX's operator set. The default is 1."""
    return next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)


LARGEST_VERSION = 2**31 - 1
"""The maximum version of a domain that ONNX's functions accept."""


def opset_problems(model: onnx.ModelProto) -> Iterator[str]:
    """Yield a message for each operator set whose version does not exist."""
    for opset in model.opset_import:
        plain = opset.domain in ("", "ai.onnx")
        newest = onnx.defs.onnx_opset_version() if plain else LARGEST_VERSION
        if not 1 <= opset.version <= newest:
            of = "" if plain else f" of {opset.domain!r}"
            yield f"operator set {opset.version}{of} is unknown; expected 1 to {newest}"


def has_runtime_operators(model: onnx.ModelProto) -> bool:
    return any(node.domain == MICROSOFT_DOMAIN for node in model.graph.node)


def name_domains(model: onnx.ModelProto) -> None:
    """Move the operators of :data:`RUNTIME_OPERATORS` that ONNX does not define to com.microsoft.

    ONNX's checker rejects these operators in ONNX's domain.
    """
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
