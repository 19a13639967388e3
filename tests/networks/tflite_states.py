"""Small TFLite models with states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

from tests.networks.tflite_models import ModelBuilder, Quantization

Array = npt.NDArray[Any]


@dataclass
class StatefulBuilder(ModelBuilder):
    """Also writes variables; a second graph gives them their first values."""

    first_values: Any = None

    def variable(self, name: str, initial: Array | None) -> int:
        """Return the handle of a variable, with a first value if one is given."""
        handle = self.add_handle(self.graph, name)
        if initial is not None:
            if self.first_values is None:
                self.first_values = self.add_first_graph()
            graph = self.first_values
            value = self.add_tensor(graph, "value", initial.shape, str(initial.dtype), initial)
            inner = self.add_handle(graph, name)
            self.add_operator(graph, "ASSIGN_VARIABLE", [inner, value], [], "AssignVariableOptions")
        return handle

    def read(
        self, handle: int, shape: tuple[int, ...], dtype: str, grid: Quantization | None
    ) -> int:
        result = self.tensor(shape, dtype, grid)
        self.operator("READ_VARIABLE", [handle], [result], "ReadVariableOptions", 1)
        return result

    def assign(self, handle: int, value: int) -> None:
        self.operator("ASSIGN_VARIABLE", [handle, value], [], "AssignVariableOptions", 1)

    def add_first_graph(self) -> Any:
        """Add a graph that runs once, in front of all operators."""
        graph = schema.SubGraphT()
        graph.name = "first_values"
        graph.tensors, graph.operators, graph.inputs, graph.outputs = [], [], [], []
        self.model.subgraphs.append(graph)
        index = len(self.model.subgraphs) - 1
        self.operator("CALL_ONCE", [], [], "CallOnceOptions", 1, initSubgraphIndex=index)
        self.graph.operators.insert(0, self.graph.operators.pop())
        return graph

    def add_handle(self, graph: Any, name: str) -> int:
        handle = self.add_tensor(graph, f"handle_{name}", (1,), "resource", None)
        values = {"container": "", "sharedName": name}
        self.add_operator(graph, "VAR_HANDLE", [], [handle], "VarHandleOptions", **values)
        return handle

    def add_tensor(
        self, graph: Any, name: str, shape: tuple[int, ...], dtype: str, data: Array | None
    ) -> int:
        own, self.graph = self.graph, graph
        index = self.tensor(shape, dtype, None, data)
        graph.tensors[index].name = f"{name}_{index}"
        self.graph = own
        return index

    def add_operator(
        self, graph: Any, kind: str, inputs: list[int], outputs: list[int], options: str,
        **values: Any,
    ) -> None:  # fmt: skip
        own, self.graph = self.graph, graph
        self.operator(kind, inputs, outputs, options, 1, **values)
        self.graph = own


GRID = Quantization(0.05, 3)


def write_variable_network(first: bool = True) -> bytes:
    """Return a network of int8 whose variable is read, assigned, and read again in a run.

    Without ``first`` the variable has no first value.
    """
    generator = np.random.default_rng(7)
    network = StatefulBuilder()
    given = network.input((1, 8), "int8", GRID)
    initial = generator.integers(-9, 9, (1, 8)).astype("int8")
    variable = network.variable("memory", initial if first else None)
    old = network.read(variable, (1, 8), "int8", GRID)
    weights = generator.integers(-40, 40, (8, 8)).astype("int8")
    bias = generator.integers(-90, 90, 8).astype("int32")
    mixed = network.tensor((1, 8), "int8", GRID)
    constants = [network.constant(weights, Quantization(0.02)), network.constant(bias)]
    network.operator("FULLY_CONNECTED", [old, *constants], [mixed], "FullyConnectedOptions")
    new = network.tensor((1, 8), "int8", GRID)
    network.operator("ADD", [mixed, given], [new], "AddOptions")
    network.assign(variable, new)
    again = network.read(variable, (1, 8), "int8", GRID)
    result = network.output((1, 8), "int8", Quantization(0.1, -1))
    network.operator("MUL", [again, given], [result], "MulOptions")
    return network.build()
