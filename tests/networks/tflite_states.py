"""Small TFLite models with states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

from tests.networks.tflite_models import ModelBuilder, Quantization

Array = npt.NDArray[Any]


@dataclass
class StatefulBuilder(ModelBuilder):
    """Also writes variables; a second graph assigns their first values."""

    first_values: Any = None
    dynamic_range: bool = False

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
        """Add a graph that runs once, before all operators."""
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
    """Return a network of int8 that reads, assigns and reads a variable in each run.

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


def write_svdf_network(
    layers: Sequence[tuple[int, int, int]] = ((6, 2, 5),),
    inputs: int = 7,
    quantized: bool = True,
    dynamic_range: bool = False,
) -> bytes:
    """Return SVDF layers with these units, ranks and memories, in int8 or in float.

    Layers in float have int8 weights with ``dynamic_range``.
    """
    network = StatefulBuilder(dynamic_range=dynamic_range)
    dtype, grid = ("int8", Quantization(0.04, 3)) if quantized else ("float32", None)
    value = network.input((1, inputs), dtype, grid)
    for units, rank, memory in layers[:-1]:
        value = add_svdf(network, value, inputs, (units, rank, memory))
        inputs = units
    network.graph.outputs = [add_svdf(network, value, inputs, layers[-1])]
    return network.build()


def add_svdf(
    network: StatefulBuilder, source: int, inputs: int, lengths: tuple[int, int, int]
) -> int:
    """Add a layer of random weights with these units, rank and memory; return its result."""
    units, rank, memory = lengths
    generator = np.random.default_rng(units * rank * memory + inputs)
    scales = [0.02 / inputs**0.5, 0.0003, 0.0005]
    features = generator.integers(-127, 128, (units * rank, inputs))
    times = generator.integers(-32767, 32768, (units * rank, memory)) // memory
    bias = generator.integers(-9000, 9000, units)
    of_state = of_result = None
    whole = network.graph.tensors[source].type == schema.TensorType.INT8
    if whole:
        # Converters write such a zero point for a state; LiteRT does not read it.
        of_state, of_result = Quantization(scales[1], -32768), Quantization(0.1, -7)
        weights = [
            network.constant(features.astype("int8"), Quantization(scales[0])),
            network.constant(times.astype("int16"), Quantization(scales[2])),
            network.constant(bias.astype("int32"), Quantization(scales[1] * scales[2])),
        ]
    elif network.dynamic_range:
        weights = [
            network.constant(features.astype("int8"), Quantization(scales[0])),
            network.constant((times >> 8).astype("int8"), Quantization(1 / 128)),
            network.constant((bias / 9000).astype("float32")),
        ]
    else:
        reals = features * scales[0], times / 2.0**15, bias / 9000
        weights = [network.constant(real.astype("float32")) for real in reals]
    length = (1, units * rank * memory)
    state = network.tensor(length, "int16" if whole else "float32", of_state)
    network.graph.tensors[state].isVariable = True
    result = network.tensor((1, units), "int8" if whole else "float32", of_result)
    relu = schema.ActivationFunctionType.RELU
    given = [source, *weights, state]
    network.operator(
        "SVDF", given, [result], "SVDFOptions", 3, rank=rank, fusedActivationFunction=relu
    )
    return result


FEATURES, UNITS, PROJECTED, STEPS = 4, 5, 3, 3


def add_cell(
    network: StatefulBuilder, dynamic_range: bool, coupled: bool, extended: bool
) -> list[int]:
    """Return inputs 1 to 19 of an LSTM with states between runs.

    An ``extended`` cell has peepholes and a projection.
    """
    generator = np.random.default_rng(len(network.graph.tensors))
    outputs = PROJECTED if extended else UNITS
    absent = {*(() if extended else (9, 10, 11, 16, 17)), *((1, 5, 9, 12) if coupled else ())}
    shapes = {1: (UNITS, FEATURES), 5: (UNITS, outputs), 9: (UNITS,), 16: (PROJECTED, UNITS),
              17: (PROJECTED,)}  # fmt: skip
    given = []
    for position in range(1, 18):
        shape = shapes[max(start for start in shapes if start <= position)]
        values = generator.normal(0, 0.7, shape).astype("float32")
        grid = None
        if dynamic_range and (position < 12 or position == 16):
            grid = Quantization(0.015 + position / 1000)
            values = np.rint(values / grid.scale).clip(-127, 127).astype("int8")
        given.append(-1 if position in absent else network.constant(values, grid))
    for length in (outputs, UNITS):
        given.append(network.tensor((1, length), "float32", None))
        network.graph.tensors[given[-1]].isVariable = True
    return given


def write_lstm_network(
    coupled: bool = False,
    time_major: bool = False,
    dynamic_range: bool = False,
    extended: bool = False,
) -> bytes:
    """Return an LSTM in float, with states between runs.

    Its weights are int8 with ``dynamic_range``. An ``extended`` layer has peepholes, a projection
    and layer normalization.
    """
    network = StatefulBuilder()
    batch = (STEPS, 1) if time_major else (1, STEPS)
    source = network.input((*batch, FEATURES), "float32", None)
    cell = add_cell(network, dynamic_range, coupled, extended)
    norms = np.linspace(0.5, 2, 4 * UNITS, dtype="float32").reshape(4, UNITS)
    normed = [network.constant(row) for row in norms] if extended else [-1] * 4
    if coupled:
        normed[0] = -1
    result = network.output((*batch, PROJECTED if extended else UNITS), "float32", None)
    network.operator(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", [source, *cell, *normed], [result],
        "UnidirectionalSequenceLSTMOptions", 1, timeMajor=time_major, cellClip=2.0, projClip=1.5,
        fusedActivationFunction=schema.ActivationFunctionType.TANH,
        asymmetricQuantizeInputs=time_major,
    )  # fmt: skip
    return network.build()


def write_lstm_step() -> bytes:
    """Return a float LSTM operator, which computes one step."""
    network = StatefulBuilder()
    source = network.input((1, FEATURES), "float32", None)
    cell = add_cell(network, False, False, False)
    result = network.output((1, UNITS), "float32", None)
    network.operator("LSTM", [source, *cell], [result], "LSTMOptions", 1, cellClip=2.0,
                     fusedActivationFunction=schema.ActivationFunctionType.TANH)  # fmt: skip
    return network.build()


def write_bidirectional_lstm(
    auxiliary: bool, linked: bool = False, dynamic_range: bool = False, merged: bool = False
) -> bytes:
    """Return a bidirectional LSTM in float; its weights are int8 with ``dynamic_range``.

    With ``auxiliary`` the backward cell reads a second input; if the inputs are ``linked``, both
    cells read both inputs.
    """
    network = StatefulBuilder()
    shape = (1, STEPS, FEATURES)
    source = network.input(shape, "float32", None)
    cells = [add_cell(network, dynamic_range, False, False) for _ in range(2)]
    weights = [(cell[:17], cell[17:]) for cell in cells]
    given = [source, *weights[0][0], *weights[1][0], *weights[0][1], *weights[1][1]]
    given.append(network.input(shape, "float32", None) if auxiliary else -1)
    given.extend([*cells[0][:4], *cells[1][:4]] if linked else [-1] * 8)
    lengths = [2 * UNITS] if merged else [UNITS, UNITS]
    results = [network.output((1, STEPS, length), "float32", None) for length in lengths]
    network.operator(
        "BIDIRECTIONAL_SEQUENCE_LSTM", given, results, "BidirectionalSequenceLSTMOptions", 1,
        fusedActivationFunction=schema.ActivationFunctionType.TANH, mergeOutputs=merged,
        timeMajor=False,
    )  # fmt: skip
    return network.build()


def write_integer_lstm(
    steps: int,
    cell_exponent: int,
    zero_point: int,
    clip: float = 0,
    hidden_grid: bool = True,
    extended: bool = False,
) -> bytes:
    """Return an LSTM of 5 units in int8 over frames of 4 features, or of one step without steps.

    The cell state counts steps of ``2 ** cell_exponent`` up to ``clip``; the output has the zero
    point. Without ``hidden_grid`` there are no intermediate tensors, as TFLite Micro allows.
    An ``extended`` layer has peepholes, and a projection with a clip.
    """
    outputs = PROJECTED if extended else UNITS
    generator = np.random.default_rng(8)
    network = StatefulBuilder()
    of_input, of_output = Quantization(0.03, 5), Quantization(1 / 128, zero_point)
    axes = (1, steps) if steps else (1,)
    given = [network.input((*axes, 4), "int8", of_input)] + [-1] * 23
    for gate in range(4):
        for position, length, scale in ((1, 4, 0.012), (5, outputs, 0.008)):
            values = generator.integers(-127, 128, (5, length)).astype("int8")
            given[position + gate] = network.constant(values, Quantization(scale + gate / 1000))
        bias = generator.integers(-3000, 3000, 5).astype("int32")
        given[12 + gate] = network.constant(bias)
    for position in (9, 10, 11) if extended else ():
        peepholes = generator.integers(-32767, 32768, 5).astype("int16")
        given[position] = network.constant(peepholes, Quantization(position / 2.0**18))
    if extended:
        projection = generator.integers(-127, 128, (outputs, 5)).astype("int8")
        given[16] = network.constant(projection, Quantization(0.007))
        given[17] = network.constant(np.array([300, -900, 40], "int32"))
    given[18] = network.tensor((1, outputs), "int8", of_output)
    given[19] = network.tensor((1, 5), "int16", Quantization(2.0**cell_exponent))
    for position in (18, 19):
        network.graph.tensors[given[position]].isVariable = True
    result = network.output((*axes, outputs), "int8", of_output)
    gates = [network.tensor((0,), "int16", Quantization(2.0**-12)) for _ in range(4)]
    hidden = network.tensor((0,), "int8", Quantization(0.007, 9) if extended else of_output)
    tanh = schema.ActivationFunctionType.TANH
    options = "UnidirectionalSequenceLSTMOptions" if steps else "LSTMOptions"
    kind = "UNIDIRECTIONAL_SEQUENCE_LSTM" if steps else "LSTM"
    network.operator(kind, given, [result], options, 3, fusedActivationFunction=tanh,
                     cellClip=clip, projClip=0.6 if extended else 0)  # fmt: skip
    if hidden_grid:
        network.graph.operators[-1].intermediates = [*gates, hidden]
    return network.build()
