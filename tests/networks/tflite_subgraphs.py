"""Small TFLite models with IF and WHILE."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from tests.networks.tflite_models import ModelBuilder


@dataclass
class BranchingBuilder(ModelBuilder):
    """Also writes further subgraphs."""

    @contextmanager
    def subgraph(self) -> Iterator[int]:
        """Add a subgraph that the block writes; return its index."""
        own, self.graph = self.graph, schema.SubGraphT()
        self.graph.tensors, self.graph.operators = [], []
        self.graph.inputs, self.graph.outputs = [], []
        self.model.subgraphs.append(self.graph)
        yield len(self.model.subgraphs) - 1
        self.graph = own


def add_branch(network: BranchingBuilder, kind: str) -> int:
    with network.subgraph() as index:
        given = network.input((1, 4), "float32", None)
        three = network.constant(np.full(4, 3, "float32"))
        result = network.output((1, 4), "float32", None)
        network.operator(kind, [given, three], [result], f"{kind.title()}Options", 1)
    return index


def write_branches(constant: bool | None) -> bytes:
    """Return a network that adds 3 if the sum of its input is positive, and subtracts 3 otherwise.

    A ``constant`` is the condition, if it is given.
    """
    network = BranchingBuilder()
    given = network.input((1, 4), "float32", None)
    if constant is None:
        total = network.tensor((), "float32", None)
        axes = network.constant(np.array([0, 1], "int32"))
        network.operator("SUM", [given, axes], [total], "ReducerOptions", 1)
        condition = network.tensor((), "bool", None)
        zero = network.constant(np.array(0, "float32"))
        network.operator("GREATER", [total, zero], [condition], "GreaterOptions", 1)
    else:
        condition = network.constant(np.array(constant))
    chosen, other = (add_branch(network, kind) for kind in ("ADD", "SUB"))
    result = network.output((1, 4), "float32", None)
    network.operator(
        "IF", [condition, given], [result], "IfOptions", 1,
        thenSubgraphIndex=chosen, elseSubgraphIndex=other,
    )  # fmt: skip
    return network.build()


def write_loop(steps: int | None) -> bytes:
    """Return a network with h = h / 2 + x[n] for n below ``steps``, from h = 0.

    Without ``steps``, an input contains the number of steps.
    """
    network = BranchingBuilder()
    count = 5 if steps is None else steps
    frames = network.input((count, 4), "float32", None)
    if steps is None:
        limit = network.input((), "int32", None)
    else:
        limit = network.constant(np.array(steps, "int32"))
    number = network.constant(np.array(0, "int32"))
    hidden = network.constant(np.zeros((1, 4), "float32"))
    given = [number, hidden, frames, limit]
    kinds = [((), "int32"), ((1, 4), "float32"), ((count, 4), "float32"), ((), "int32")]
    with network.subgraph() as condition:
        n, _, _, last = (network.input(*kind, None) for kind in kinds)
        network.operator("LESS", [n, last], [network.output((), "bool", None)], "LessOptions", 1)
    with network.subgraph() as body:
        n, h, x, last = (network.input(*kind, None) for kind in kinds)
        half, frame = network.tensor((1, 4), "float32", None), network.tensor((4,), "float32", None)
        network.operator(
            "MUL", [h, network.constant(np.array(0.5, "float32"))], [half], "MulOptions", 1
        )
        network.operator("GATHER", [x, n], [frame], "GatherOptions", 1)
        following = network.output((), "int32", None)
        one = network.constant(np.array(1, "int32"))
        network.operator("ADD", [n, one], [following], "AddOptions", 1)
        network.operator(
            "ADD", [half, frame], [network.output((1, 4), "float32", None)], "AddOptions", 1
        )
        network.graph.outputs += [x, last]
    results = [network.tensor(*kind, None) for kind in kinds]
    network.graph.outputs = [results[1]]
    network.operator(
        "WHILE", given, results, "WhileOptions", 1,
        condSubgraphIndex=condition, bodySubgraphIndex=body,
    )  # fmt: skip
    return network.build()
