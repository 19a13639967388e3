"""guide, vendor's examples: the sources of a model."""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from ...ir.tensor_type import ScalarType

NEWEST_IR = 8
NEWEST_OPSET = 17
"""1.4: opsets 16 and 17, of ONNX 1.11 and 1.12."""
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class ImporterParams:
    model: onnx.ModelProto
    shapes: Shapes


def onnx_source(
    model_path: str, shape_dict: Shapes, dtype_dict: dict[str, ScalarType]
) -> ImporterParams:
    """Read a float32 graph with fixed shapes, a batch of one."""
    model = onnx.load(model_path)
    onnx.checker.check_model(model)
    if model.ir_version > NEWEST_IR or model.opset_import[0].version > NEWEST_OPSET:
        raise ValueError("the ONNX file is of a newer version than the SDK reads")
    stated = {
        i.name: tuple(d.dim_value for d in i.type.tensor_type.shape.dim) for i in model.graph.input
    }
    if stated != shape_dict:
        raise ValueError(f"shape_dict is {shape_dict}, the model has {stated}")
    if any(not shape or min(shape) < 1 or shape[0] != 1 for shape in shape_dict.values()):
        raise ValueError("shapes are fixed, and their first axis is a batch of 1")
    if dtype_dict != dict.fromkeys(shape_dict, ScalarType.float32):
        raise ValueError("inputs are float32")
    return ImporterParams(model, shape_dict)
