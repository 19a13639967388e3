"""One network of a TFLite file with several, selected by the name of its signature."""

from __future__ import annotations

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter

from firmwright.errors import UserError
from firmwright.ir.tensors import ModelInterface
from firmwright.models.state_pairs import pair_states
from firmwright.models.tflite.importer import import_model, run_reference
from firmwright.models.tflite.signatures import select_signature
from firmwright.partition.outline import output_names
from tests.networks.firmware import lowered
from tests.networks.tflite_models import ModelBuilder, add_signature
from tests.networks.tflite_states import GRID, StatefulBuilder


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


def write_difference() -> ModelBuilder:
    """Return a model of two inputs and one output whose tensors have a converter's names."""
    builder = ModelBuilder()
    inputs = [builder.input((1, 4), "float32", None) for _ in range(2)]
    builder.operator("SUB", inputs, [builder.output((1, 4), "float32", None)], "SubOptions", 1)
    names = ("serving_default_new:0", "serving_default_old:0", "StatefulPartitionedCall_1:0")
    for tensor, name in zip(builder.graph.tensors, names, strict=True):
        tensor.name = name
    add_signature(builder.model, "serving_default", 0)
    inputs_of(builder)[0].name, inputs_of(builder)[1].name = "new", "old"
    return builder


def inputs_of(builder: ModelBuilder) -> list[schema.TensorMapT]:
    maps: list[schema.TensorMapT] = builder.model.signatureDefs[0].inputs
    return maps


def read(builder: ModelBuilder) -> ModelInterface:
    return import_model(builder.build(), "m.tflite", {})[1]


def names_of(builder: ModelBuilder) -> list[str]:
    interface = read(builder)
    return [tensor.name for tensor in (*interface.inputs, *interface.outputs)]


def test_a_signature_names_inputs_and_outputs_in_any_order() -> None:
    builder = write_difference()
    inputs_of(builder).reverse()
    assert names_of(builder) == ["new", "old", "outputs_0"]
    assert output_names(read(builder)) == ["StatefulPartitionedCall_1:0"]  # the layer's name


def test_a_shape_is_stated_by_the_name_of_the_signature() -> None:
    shapes = {"new": (3, 4), "old": (3, 4)}
    builder = write_difference()
    for tensor in builder.graph.tensors:
        tensor.shapeSignature = [-1, 4]
    _, interface = import_model(builder.build(), "m.tflite", shapes)
    assert [t.shape for t in interface.inputs] == [(3, 4), (3, 4)]
    with pytest.raises(UserError, match="no input 'serving_default_new:0'; known: new, old"):
        import_model(builder.build(), "m.tflite", {"serving_default_new:0": (3, 4)})


def test_an_input_that_the_signature_omits_has_the_name_of_its_tensor() -> None:
    builder = write_difference()
    del inputs_of(builder)[0]
    assert names_of(builder) == ["serving_default_new:0", "old", "outputs_0"]


def test_a_name_that_a_signature_repeats_is_not_used() -> None:
    builder = write_difference()
    inputs_of(builder)[0].name = "outputs_0"
    names = ["serving_default_new:0", "old", "StatefulPartitionedCall_1:0"]
    assert names_of(builder) == names
    (remark,) = read(builder).remarks
    assert "the signature 'serving_default' repeats the name 'outputs_0'" in remark


def test_two_signatures_of_one_network_name_nothing() -> None:
    builder = write_difference()
    add_signature(builder.model, "other", 0)
    assert names_of(builder)[0] == "serving_default_new:0"


def test_a_state_handed_to_the_reference_has_the_name_of_the_signature() -> None:
    builder = write_difference()
    builder.graph.outputs.append(builder.graph.outputs[0])
    twice = builder.model.signatureDefs[0].outputs
    twice.append(schema.TensorMapT())
    twice[1].name, twice[1].tensorIndex = "next", twice[0].tensorIndex
    data = builder.build()
    module, interface = import_model(data, "m.tflite", {})
    _, interface = pair_states(module, interface, {"old": "next"})
    samples = [{"new": np.full((1, 4), n, "float32")} for n in (5, 7)]
    found = run_reference(data, samples, interface.states).outputs
    assert [float(output[0, 0]) for (output,) in found] == [5, 2]
