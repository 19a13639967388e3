"""Operators of ONNX Runtime's domain as those of ONNX: the quantizer knows these alone."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from firmwright.errors import UserError, first_line
from firmwright.ir.tensors import Tensor
from firmwright.models.onnx.domains import get_opset, has_runtime_operators, name_domains
from firmwright.models.onnx.graph.rewrites import RUNTIME_REWRITES
from firmwright.models.onnx.graph.specialize import specialize
from firmwright.quantize.recurrent import name_apart

FUSED_OPSET = 20
"""The oldest operator set that has all with which they are written; Gelu came last."""


def write_out_fused(model: onnx.ModelProto, inputs: Sequence[Tensor]) -> onnx.ModelProto:
    """Return the model without operators of ONNX Runtime's domain.

    Raises UserError where its other operators have no form in the operator set for that.
    """
    name_domains(model)
    if not has_runtime_operators(model):
        return model
    if get_opset(model) < FUSED_OPSET:
        try:
            model = onnx.version_converter.convert_version(model, FUSED_OPSET)
        except Exception as error:  # the converter's errors have no base class of their own
            raise UserError(
                f"quantize: the model cannot be taken to operator set {FUSED_OPSET}, which its "
                f"fused operators ask for: {first_line(error)}; export it for that one"
            ) from error
    model = specialize(model, inputs, RUNTIME_REWRITES)
    name_apart(model.graph)
    return model
