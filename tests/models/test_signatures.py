"""One network of a TFLite file with several, selected by the name of its signature."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter

from firmwright.errors import UserError
from firmwright.models.tflite.importer import import_model, run_reference
from firmwright.models.tflite.signatures import select_signature
from tests.networks.firmware import lowered
from tests.networks.tflite_models import ModelBuilder
from tests.networks.tflite_states import GRID, StatefulBuilder


def add_signature(model: Any, name: str, index: int) -> None:
    graph = model.subgraphs[index]
    signature = schema.SignatureDefT()
    signature.signatureKey, signature.subgraphIndex = name, index
    for key, tensors in (("inputs", graph.inputs), ("outputs", graph.outputs)):
        maps = [schema.TensorMapT() for _ in tensors]
        for position, tensor in enumerate(tensors):
            maps[position].name, maps[position].tensorIndex = f"{key}_{position}", tensor
        setattr(signature, key, maps)
    model.signatureDefs = [*(model.signatureDefs or []), signature]


def write_two_networks() -> ModelBuilder:
    """Return a model whose signature ``step`` adds x to a variable, and ``negate`` returns -x."""
    network = StatefulBuilder()
    given = network.input((1, 4), "int8", GRID)
    variable = network.variable("memory", np.arange(4, dtype="int8").reshape(1, 4))
    old = network.read(variable, (1, 4), "int8", GRID)
    result = network.output((1, 4), "int8", GRID)
    network.operator("ADD", [old, given], [result], "AddOptions")
    network.assign(variable, result)
    step = network.graph
    network.graph = schema.SubGraphT()
    network.graph.tensors, network.graph.operators = [], []
    network.graph.inputs, network.graph.outputs = [], []
    given = network.input((1, 3), "float32", None)
    network.operator("NEG", [given], [network.output((1, 3), "float32", None)], "NegOptions", 1)
    network.model.subgraphs.insert(0, network.graph)
    step.operators[0].builtinOptions.initSubgraphIndex = 2
    add_signature(network.model, "negate", 0)
    add_signature(network.model, "step", 1)
    return network


def test_a_signature_selects_its_network_and_its_states() -> None:
    data = write_two_networks().build()
    selected = select_signature(data, "m.tflite", "step")
    _, interface = import_model(selected, "m.tflite", {})
    assert [t.shape for t in interface.inputs] == [(1, 4)]
    (state,) = interface.states
    assert state.initial == bytes(range(4))

    samples = [{interface.inputs[0].name: np.full((1, 4), n, "int8")} for n in (5, -7)]
    found = run_reference(selected, samples, interface.states).outputs
    whole = Interpreter(model_content=data).get_signature_runner("step")
    for sample, (output,) in zip(samples, found, strict=True):
        (expected,) = whole(inputs_0=next(iter(sample.values()))).values()
        np.testing.assert_array_equal(output, expected)


def test_the_first_network_can_be_selected_too() -> None:
    selected = select_signature(write_two_networks().build(), "m.tflite", "negate")
    _, interface = import_model(selected, "m.tflite", {})
    assert interface.inputs[0].shape == (1, 3) and not interface.states


def test_a_model_with_several_networks_names_them_and_the_key() -> None:
    message = r"\('negate', 'step'\); select one in the recipe, .*signature_name: negate"
    with pytest.raises(UserError, match=message):
        lowered(write_two_networks().build())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("stepp", "the model has no signature 'stepp'; did you mean 'step'"),
        ("x", "the model has no signature 'x'; known: negate, step"),
    ],
)
def test_an_unknown_signature_is_rejected(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        select_signature(write_two_networks().build(), "m.tflite", name)


def test_a_signature_of_a_missing_subgraph_is_rejected() -> None:
    network = write_two_networks()
    network.model.signatureDefs[1].subgraphIndex = 9
    with pytest.raises(UserError, match=r"damaged TFLite model"):
        select_signature(network.build(), "m.tflite", "step")
