"""Returns every tensor of a PyTorch program, to find the first layer that differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.export.graph_signature import InputKind

from firmwright.ir.tensors import State
from firmwright.models.formats import Samples, TensorValues
from firmwright.models.pytorch.dynamic_shapes import fix_shapes
from firmwright.models.pytorch.evaluation import to_numpy, to_torch, use_one_thread
from firmwright.models.pytorch.importer import simplify
from firmwright.models.pytorch.loading import load_program
from firmwright.models.sequence import read_initial


class Recorder(torch.fx.Interpreter):  # type: ignore[misc]
    """Evaluates a graph operator by operator, and keeps each tensor by the name of its node."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self.found: dict[str, np.ndarray[Any, Any]] = {}

    def run_node(self, node: torch.fx.Node) -> Any:
        value = super().run_node(node)
        if node.op == "call_function" and isinstance(value, torch.Tensor):
            self.found[node.name] = to_numpy(value)
        return value


def read_tensors(data: bytes, inputs: Samples, states: Sequence[State] = ()) -> TensorValues:
    """Return the results of all operators in the form that is imported; torch evaluates them.

    The final states of a sample are the states of the next sample. Raises UserError if torch
    rejects the model.
    """
    del states  # the program has their initial values
    shapes = {name: array.shape for name, array in inputs[0].items()}
    program, _ = fix_shapes(load_program(data, "model"), shapes, "model")
    core, handed = simplify(program, "model")
    values = {name: to_torch(read_initial(state)) for name, state in handed.items()}
    tensors: TensorValues = []
    for sample in inputs:
        given = {name: to_torch(array) for name, array in sample.items()} | values
        recorder = Recorder(core.graph_module)
        with use_one_thread(), torch.inference_mode():
            results = recorder.run(*list_arguments(core, given))
        values = dict(zip(values, results, strict=False))
        tensors.append(recorder.found)
    return tensors


def list_arguments(
    program: torch.export.ExportedProgram, given: Mapping[str, torch.Tensor]
) -> Iterator[torch.Tensor]:
    """Yield the inputs of the graph in order: constants of the file, and the given tensors."""
    stored = {**program.state_dict, **program.constants}
    for port in program.graph_signature.input_specs:
        yield given[port.arg.name] if port.kind is InputKind.USER_INPUT else stored[port.target]
