"""Exports the whole network as ONNX for SiMa's compiler, and its calibration samples.

The graph has images with the channels first, and float32 inputs and outputs. A quantized network
keeps its QuantizeLinear and DequantizeLinear operators, because their scales have priority over the
compiler's calibration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import helper

from firmwright.errors import UserError
from firmwright.ir.nodes import IRModule
from firmwright.ir.relax import main_bindings
from firmwright.ir.tensors import ModelInterface, Tensor
from firmwright.models.onnx.export import TO_CHANNELS_FIRST, TO_CHANNELS_LAST, OnnxValue
from firmwright.models.onnx.quantized_export import QuantizedExporter
from firmwright.targets.fact_context import make_fact_context

Array = npt.NDArray[Any]
IMAGE_AXES = 4


@dataclass(frozen=True)
class SimaNetwork:
    """An ONNX graph with its inputs and outputs.

    ``model_inputs`` are the model's inputs with their quantization parameters. ``layout`` is the
    layout of the model's images.
    """

    data: bytes
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    model_inputs: tuple[Tensor, ...]
    layout: str


def export_network(module: IRModule, interface: ModelInterface) -> SimaNetwork:
    """Return a network as ONNX.

    Raises UserError if an input has neither floats nor quantization parameters. Also raises
    UserError if an operator cannot be exported.
    """
    layout = make_fact_context(main_bindings(module)).layout
    for tensor in interface.inputs:
        if tensor.scale is None and tensor.dtype != "float32":
            raise UserError(
                f"target: mla: the input '{tensor.name}' is {tensor.dtype}; SiMa's compiler "
                "supports float32 and dequantized inputs: export the model with a float32 input"
            )
    exporter = NetworkExporter(module, interface, layout)
    ports = exporter.interface
    return SimaNetwork(exporter.run(), ports.inputs, ports.outputs, interface.inputs, layout)


def order_samples(arrays: Sequence[Array], layout: str) -> Array:
    """Return all samples of one input, one row per sample. Images have their channels last.

    SiMa's compiler requires this order for any order of the model's axes.
    """
    samples = np.stack(arrays)
    if layout == "NCHW" and samples.ndim == IMAGE_AXES + 1:
        samples = samples.transpose(0, *(axis + 1 for axis in TO_CHANNELS_LAST))
    return np.ascontiguousarray(samples, "float32")


class NetworkExporter(QuantizedExporter):
    """Exports a network with the inputs and outputs that SiMa's compiler expects."""

    refusal = "target: mla: operators that have no form in the ONNX graph for SiMa's compiler:"

    def __init__(self, module: IRModule, interface: ModelInterface, layout: str) -> None:
        self.params_of = {t.name: t for t in (*interface.inputs, *interface.outputs)}
        self.channels_last = layout == "NHWC"
        inputs, outputs = (
            tuple(self.describe_port(tensor) for tensor in tensors)
            for tensors in (interface.inputs, interface.outputs)
        )
        super().__init__(module, replace(interface, inputs=inputs, outputs=outputs))

    def describe_port(self, tensor: Tensor) -> Tensor:
        shape = tensor.shape
        if self.is_turned(tensor):
            shape = tuple(shape[axis] for axis in TO_CHANNELS_FIRST)
        dtype = "float32" if tensor.scale is not None else tensor.dtype
        return Tensor(tensor.name, shape, dtype)

    def is_turned(self, tensor: Tensor) -> bool:
        return self.channels_last and len(tensor.shape) == IMAGE_AXES

    def read_input(self, tensor: Tensor) -> OnnxValue:
        params = self.params_of[tensor.name]
        name = self.convert("QuantizeLinear", tensor.name, params)
        return OnnxValue(name, self.is_turned(params))

    def write_output(self, value: OnnxValue, tensor: Tensor) -> None:
        params = self.params_of[tensor.name]
        name = value.name if self.is_turned(params) else self.to_relax_layout(value)
        if self.is_turned(params) and not value.channels_first:
            name = self.transpose(name, TO_CHANNELS_FIRST)
        result = self.convert("DequantizeLinear", name, params)
        self.nodes.append(helper.make_node("Identity", [result], [tensor.name]))

    def convert(self, kind: str, name: str, params: Tensor) -> str:
        """Add a node that converts between float32 and integers, if the port has a scale."""
        if params.scale is None:
            return name
        numbers = (
            np.array(params.scale, "float32"),
            np.array(params.zero_point or 0).astype(params.dtype),
        )
        result = self.make_unique_name(f"{name}_{kind}")
        inputs = [name, *(self.add_constant(number) for number in numbers)]
        self.nodes.append(helper.make_node(kind, inputs, [result], result))
        return result
