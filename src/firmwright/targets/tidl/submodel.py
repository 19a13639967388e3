"""A region as an ONNX graph of its own, for TI's import tool: quantized as it is, or float."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tvm
from tvm import relax

from firmwright.ir.tensors import ModelInterface, Tensor
from firmwright.models.onnx.quantized_export import QuantizedExporter
from firmwright.partition.outline import make_tensor


@dataclass(frozen=True)
class SubModel:
    """An ONNX graph whose ``inputs`` and ``outputs`` are the region's boundary, in its order.

    They are called ``tidl_<number>_i0`` … and ``tidl_<number>_o0`` …, as TI's compilers call
    them, and have the boundary's shapes and types: integers stay integers.
    """

    data: bytes
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


def export_sub_model(function: relax.Function, number: int) -> SubModel:
    """Write the ``number``-th region's function as ONNX.

    Raises UserError listing the operators that have no form here.
    """
    module = tvm.IRModule({"main": function.without_attr("global_symbol")})
    inputs = make_tensors(f"tidl_{number}_i", function.params)
    outputs = make_tensors(f"tidl_{number}_o", function.body.body.fields)
    exporter = RegionExporter(module, ModelInterface("relax", "", inputs, outputs, ()))
    return SubModel(exporter.run(), inputs, outputs)


def make_tensors(stem: str, variables: Sequence[relax.Var]) -> tuple[Tensor, ...]:
    return tuple(make_tensor(f"{stem}{index}", v) for index, v in enumerate(variables))


class RegionExporter(QuantizedExporter):
    refusal = "tidl: operators that have no form in a sub-model:"
