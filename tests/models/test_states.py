"""The messages for invalid states."""

from __future__ import annotations

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from firmwright.compile import compile_network
from firmwright.errors import UserError
from firmwright.models import FORMATS
from firmwright.models.state_pairs import StateError, pair_states
from firmwright.models.tflite.repairs import pack
from firmwright.recipe.target import parse_target
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import load_platform
from tests.lowering.test_states import TAPS, write_taps
from tests.networks.tflite_models import Quantization
from tests.networks.tflite_states import (
    GRID,
    PROJECTED,
    UNITS,
    StatefulBuilder,
    write_bidirectional_lstm,
    write_integer_lstm,
    write_lstm_network,
    write_lstm_step,
    write_svdf_network,
    write_variable_network,
)


def import_tflite(data: bytes) -> None:
    FORMATS["tflite"].load().import_model(data, "net.tflite", {})


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ({"z": "a_next"}, "the model has no input 'z'"),
        ({"a": "a_nxt"}, "the model has no output 'a_nxt'; did you mean 'a_next'"),
        ({"a": "a_next", "b": "a_next"}, "'a_next' is the next value of two states"),
        ({**TAPS, "x": "y"}, "all outputs are states: the network would have no outputs"),
    ],
)
def test_pairs_that_are_none(pairs: dict[str, str], message: str) -> None:
    module, interface = FORMATS["onnx"].load().import_model(write_taps(), "taps", {})
    with pytest.raises(StateError, match=message):
        pair_states(module, interface, pairs)


def test_a_batch_of_a_network_with_states_is_refused() -> None:
    module, interface = FORMATS["tflite"].load().import_model(write_variable_network(), "net", {})
    mix = load_mix(parse_target("c"), load_platform("host"), "tflite")
    with pytest.raises(UserError, match=r"states \('memory'\) processes samples in order"):
        compile_network(module, interface, mix, batch=2)


def test_a_variable_without_a_first_value_is_refused() -> None:
    with pytest.raises(UserError, match="'memory' is read before it has a value: assign its first"):
        import_tflite(write_variable_network(first=False))


def write_assignment(shape: tuple[int, ...], grid: Quantization) -> bytes:
    """Return a network that reads an int8 variable (1, 4), and assigns another tensor to it."""
    network = StatefulBuilder()
    given = network.input((1, 4), "int8", GRID)
    variable = network.variable("memory", np.zeros((1, 4), "int8"))
    old = network.read(variable, (1, 4), "int8", GRID)
    result = network.output((1, 4), "int8", GRID)
    network.operator("ADD", [old, given], [result], "AddOptions")
    other = network.input(shape, "int8", grid)
    network.assign(variable, other)
    return network.build()


@pytest.mark.parametrize(
    ("shape", "grid", "found"),
    [((1, 3), GRID, r"int8 \[1, 3\] on 0.05"), ((1, 4), Quantization(0.1), r"\[1, 4\] on 0.1")],
)
def test_a_variable_keeps_its_shape_and_grid(
    shape: tuple[int, ...], grid: Quantization, found: str
) -> None:
    wanted = rf"'memory' is int8 \[1, 4\] on 0.05; the assigned value is .*{found}"
    with pytest.raises(UserError, match=wanted):
        import_tflite(write_assignment(shape, grid))


def test_a_state_of_another_type_than_litert_computes_with() -> None:
    model = schema.ModelT.InitFromPackedBuf(write_svdf_network(), 0)
    (state,) = (t for t in model.subgraphs[0].tensors if t.isVariable)
    state.type, state.quantization.zeroPoint = schema.TensorType.INT8, [0]
    with pytest.raises(UserError, match="has int8 features, int16 time weights and a state of in"):
        import_tflite(pack(model, 1 << 16))


def test_an_integer_lstm_with_layer_normalization_is_refused() -> None:
    model = schema.ModelT.InitFromPackedBuf(write_integer_lstm(1, -11, 3), 0)
    graph = model.subgraphs[0]
    weights, buffer = schema.TensorT(), schema.BufferT()
    buffer.data = np.ones(5, "int16").view("uint8")
    model.buffers.append(buffer)
    weights.name, weights.shape, weights.type = b"norm", [5], schema.TensorType.INT16
    weights.buffer, weights.quantization = len(model.buffers) - 1, schema.QuantizationParametersT()
    weights.quantization.scale, weights.quantization.zeroPoint = [2.0**-10], [0]
    graph.tensors.append(weights)
    operator = graph.operators[0]
    operator.inputs = [*operator.inputs[:20], *[len(graph.tensors) - 1] * 4]
    with pytest.raises(UserError, match=r"LSTM .* has layer normalization in int8; firmwright"):
        import_tflite(pack(model, 1 << 16))


def test_an_lstm_with_diagonal_weights_is_refused() -> None:
    model = schema.ModelT.InitFromPackedBuf(write_lstm_network(), 0)
    operator = model.subgraphs[0].operators[0]
    operator.inputs = [*operator.inputs[:5], *[operator.inputs[15]] * 4, *operator.inputs[9:]]
    with pytest.raises(UserError, match=r"LSTM .* has diagonal recurrent weights; firmwright"):
        import_tflite(pack(model, 1 << 16))


def test_an_lstm_of_the_basic_kernel_is_refused() -> None:
    model = schema.ModelT.InitFromPackedBuf(write_lstm_step(), 0)
    operator = model.subgraphs[0].operators[0]
    operator.inputs = operator.inputs[:5]
    operator.builtinOptions.kernelType = schema.LSTMKernelType.BASIC
    with pytest.raises(UserError, match=r"LSTM .* has the basic kernel; firmwright supports"):
        import_tflite(pack(model, 1 << 16))


def test_samples_whose_peepholes_tflite_mixes_are_refused() -> None:
    model = schema.ModelT.InitFromPackedBuf(write_integer_lstm(3, -11, 0, extended=True), 0)
    operator = model.subgraphs[0].operators[0]
    tensors = model.subgraphs[0].tensors
    tensors[operator.inputs[0]].shape = [3, 2, 4]
    tensors[operator.outputs[0]].shape = [3, 2, PROJECTED]
    for position, length in ((18, PROJECTED), (19, UNITS)):
        tensors[operator.inputs[position]].shape = [2, length]
    operator.builtinOptions.timeMajor = True
    with pytest.raises(UserError, match=r"has peepholes, a projection and 2 samples per step in"):
        import_tflite(pack(model, 1 << 16))


def test_a_quantized_bidirectional_lstm_is_refused() -> None:
    model = schema.ModelT.InitFromPackedBuf(write_bidirectional_lstm(auxiliary=False), 0)
    graph = model.subgraphs[0]
    for index in (graph.inputs[0], *graph.outputs):
        graph.tensors[index].type = schema.TensorType.INT8
        graph.tensors[index].quantization = schema.QuantizationParametersT()
        graph.tensors[index].quantization.scale = [0.1]
        graph.tensors[index].quantization.zeroPoint = [0]
    with pytest.raises(UserError, match=r"BIDIRECTIONAL.* has quantized inputs; LiteRT"):
        import_tflite(pack(model, 1 << 16))


def test_a_variable_that_nothing_assigns_is_a_constant() -> None:
    network = StatefulBuilder()
    given = network.input((1, 4), "int8", GRID)
    variable = network.variable("memory", np.arange(4, dtype="int8").reshape(1, 4))
    result = network.output((1, 4), "int8", GRID)
    old = network.read(variable, (1, 4), "int8", GRID)
    network.operator("ADD", [old, given], [result], "AddOptions")
    _, interface = FORMATS["tflite"].load().import_model(network.build(), "net", {})
    assert interface.states == ()
