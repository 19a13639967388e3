"""Provides firmwright as a backend of ONNX, so that ONNX's tests and tools run generated C.

    from onnx.backend.test import BackendTest
    from firmwright.onnx_backend import FirmwrightBackend

    tests = BackendTest(FirmwrightBackend, __name__)

A model becomes a program for this machine, as for ``platform: host`` and ``target: c``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep

from firmwright.compile import compile_network
from firmwright.errors import UserError
from firmwright.ir.small_types import to_bytes, to_model_type
from firmwright.models.onnx.importer import import_model
from firmwright.project.network import Network
from firmwright.recipe.target import parse_target
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import load_platform
from firmwright.verify.host_run import HostProgram, compile_for_host

PLATFORM = load_platform("host")


class CompiledModel(BackendRep):
    """The program of a model. The program's folder exists as long as this object."""

    def __init__(self, made: HostProgram, folder: tempfile.TemporaryDirectory[str]) -> None:
        self.made = made
        self.folder = folder

    def run(self, inputs: Any, **_: Any) -> tuple[np.ndarray[Any, Any], ...]:
        """Run the program on a sample: arrays by name, or in the order of the model's inputs."""
        interface = self.made.network.interface
        if not isinstance(inputs, Mapping):
            names = [tensor.name for tensor in interface.inputs]
            inputs = dict(zip(names, inputs, strict=True))
        sample = {name: to_bytes(np.asarray(value)) for name, value in inputs.items()}
        (outputs,) = self.made.run([sample]).outputs
        return tuple(to_model_type(a, t) for a, t in zip(outputs, interface.outputs, strict=True))


class FirmwrightBackend(Backend):
    """Implements the interface of ``onnx.backend.base``."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **_: Any) -> bool:
        """Return whether firmwright compiles a model. :meth:`prepare` raises the reason."""
        try:
            compile_model(model)
        except UserError:
            return False
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **_: Any) -> CompiledModel:
        """Compile a model for this machine. Raises UserError if the model cannot be compiled."""
        if not cls.supports_device(device):
            raise UserError(f"the device {device!r} is not supported; expected 'CPU'")
        network = compile_model(model)
        folder = tempfile.TemporaryDirectory(prefix="firmwright-")
        root = Path(folder.name)
        return CompiledModel(compile_for_host(network, PLATFORM, root, root / "cache"), folder)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Sequence[Any],
        device: str = "CPU",
        outputs_info: Any = None,  # noqa: ARG003 - they are inferred
        **options: Any,
    ) -> tuple[np.ndarray[Any, Any], ...]:
        """Run one operator of the version ``opset_version``. The default is the newest version."""
        arrays = [np.asarray(value) for value in inputs]
        given = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for name, a in zip(node.input, arrays, strict=True)
        ]
        results = [helper.make_empty_tensor_value_info(name) for name in node.output]
        graph = helper.make_graph([node], node.op_type, given, results)
        opset = options.get("opset_version", onnx.defs.onnx_opset_version())
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, opset)])
        return cls.prepare(onnx.shape_inference.infer_shapes(model), device).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"


def compile_model(model: onnx.ModelProto) -> Network:
    module, interface = import_model(model.SerializeToString(), model.graph.name, {})
    return compile_network(module, interface, load_mix(parse_target("c"), PLATFORM, "onnx"))
