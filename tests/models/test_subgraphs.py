"""IF and WHILE, whose subgraphs become operators of the first subgraph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from firmwright.errors import UserError
from firmwright.models.tflite import importer as tflite
from firmwright.models.tflite.subgraphs import MOST_STEPS
from tests.networks.firmware import SANITIZED, lowered, random_samples, run_generated
from tests.networks.tflite_models import Quantization
from tests.networks.tflite_subgraphs import BranchingBuilder, write_branches, write_loop


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
