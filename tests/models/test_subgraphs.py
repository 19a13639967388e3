"""IF and WHILE, whose subgraphs become operators of the first subgraph."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from firmwright.errors import UserError
from firmwright.models.tflite import importer as tflite
from firmwright.models.tflite.subgraphs import MOST_STEPS
from tests.networks.firmware import SANITIZED, lowered, random_samples, run_generated
from tests.networks.tflite_models import ModelBuilder, Quantization


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


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    "data",
    [write_branches(None), write_branches(False), write_branches(True), write_loop(5)],
    ids=["both branches", "never", "always", "loop"],
)
def test_results_equal_litert(data: bytes, tmp_path: Path) -> None:
    samples = random_samples(data, 6, 3)
    found = run_generated(data, samples, tmp_path, SANITIZED)
    expected = tflite.run_reference(data, samples).outputs
    np.testing.assert_array_equal(np.array(found), np.array(expected))
    _, interface = tflite.import_model(data, "m.tflite", {})
    assert not {o.kind for o in interface.operators} & {"IF", "WHILE"}


def test_the_condition_varies_in_the_test() -> None:
    data = write_branches(None)
    samples = random_samples(data, 6, 3)
    (name,) = samples[0]
    outputs = [o[0] for o in tflite.run_reference(data, samples).outputs]
    assert len({float((o - s[name])[0, 0]) > 0 for o, s in zip(outputs, samples, strict=True)}) == 2


def write_nested_state() -> bytes:
    """Return an IF of its input, whose branch has an IF that assigns a variable."""
    network = BranchingBuilder()
    condition = network.input((), "bool", None)
    given = network.input((1, 4), "float32", None)
    with network.subgraph() as changing:
        value = network.input((1, 4), "float32", None)
        state = network.tensor((), "resource", None)
        network.operator("VAR_HANDLE", [], [state], "VarHandleOptions", 1)
        network.operator("ASSIGN_VARIABLE", [state, value], [], "AssignVariableOptions", 1)
        network.graph.outputs.append(value)
    with network.subgraph() as outer:
        value = network.input((1, 4), "float32", None)
        network.operator(
            "IF", [network.constant(np.array(True)), value],
            [network.output((1, 4), "float32", None)], "IfOptions", 1,
            thenSubgraphIndex=changing, elseSubgraphIndex=changing,
        )  # fmt: skip
    network.operator(
        "IF", [condition, given], [network.output((1, 4), "float32", None)], "IfOptions", 1,
        thenSubgraphIndex=outer, elseSubgraphIndex=outer,
    )  # fmt: skip
    return network.build()


def write_other_scale() -> bytes:
    """Return an IF whose branch has another scale than its result."""
    network = BranchingBuilder()
    condition, grid = network.input((), "bool", None), Quantization(0.1)
    given = network.input((1, 4), "int8", grid)
    with network.subgraph() as branch:
        network.graph.outputs = [network.input((1, 4), "int8", Quantization(0.2))]
    network.operator(
        "IF", [condition, given], [network.output((1, 4), "int8", grid)], "IfOptions", 1,
        thenSubgraphIndex=branch, elseSubgraphIndex=branch,
    )  # fmt: skip
    return network.build()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (write_nested_state(), r"a branch changes a state \(ASSIGN_VARIABLE\)"),
        (write_other_scale(), r"'t\d+' and 't\d+' have different quantization parameters"),
        (write_loop(None), r"WHILE \(tensor 't\d+'\): its number of steps depends on 't1', which "
         r"is known only at run time; .*unroll=True"),
        (write_loop(MOST_STEPS + 1), r"the loop has 1,024 steps or more; expected at most 1,023"),
    ],
    ids=["state in a branch of a branch", "other scale", "computed", "too long"],
)  # fmt: skip
def test_subgraphs_that_cannot_be_inlined(data: bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        lowered(data)
