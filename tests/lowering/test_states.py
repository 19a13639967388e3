"""States between runs: the C equals the reference runtime over 100 consecutive steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax, tirx

from firmwright.builder import Graph
from firmwright.compile import compile_network
from firmwright.ir.tensors import State
from firmwright.models import FORMATS
from firmwright.models.state_pairs import pair_states
from firmwright.models.tflite.lstm_integers import scale_values
from firmwright.project.network import Network
from firmwright.recipe.target import parse_target
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import load_platform
from firmwright.verify.protocol import decode_outputs
from tests.lowering.test_float_layers import run_on
from tests.networks.firmware import (
    SANITIZED,
    Outputs,
    Sample,
    executed,
    lowered,
    random_samples,
    run_generated,
)
from tests.networks.streaming import write_streaming_dscnn, write_svdf_keywords
from tests.networks.tflite_states import (
    write_bidirectional_lstm,
    write_integer_lstm,
    write_lstm_network,
    write_lstm_step,
    write_svdf_network,
    write_variable_network,
)

pytestmark = pytest.mark.needs("gcc")

STEPS = 100
HOST = load_platform("host")


def assert_equal_steps(found: Outputs, data: bytes, samples: list[Sample]) -> None:
    """Compare with LiteRT bit for bit, and check that all steps differ."""
    expected = FORMATS["tflite"].load().run_reference(data, samples).outputs
    for step, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        for array, reference in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(array, reference, f"step {step}")
    assert len({arrays[0].tobytes() for arrays in found}) > STEPS / 4


def test_a_variable_goes_on_from_run_to_run(tmp_path: Path) -> None:
    data = write_variable_network()
    samples = random_samples(data, STEPS, 1)
    assert_equal_steps(run_generated(data, samples, tmp_path, SANITIZED), data, samples)


def test_svdf_is_exact(tmp_path: Path) -> None:
    data = write_svdf_network([(8, 1, 10), (8, 2, 4), (3, 1, 1)])
    samples = random_samples(data, STEPS, 1)
    assert_equal_steps(run_generated(data, samples, tmp_path, SANITIZED), data, samples)
    assert not lowered(data).kernels.float_operators
    assert not (tmp_path / "sources/network/network_lstm_gates.h").exists()


@pytest.mark.parametrize(
    "data",
    [
        write_integer_lstm(1, -11, 3),
        write_integer_lstm(2, -9, -20),
        write_integer_lstm(1, -15, 0),
        write_integer_lstm(2, -11, 3, clip=0.3, extended=True),
        write_integer_lstm(1, -11, 3, clip=10, hidden_grid=False),
        write_integer_lstm(0, -11, 3, clip=0.3),
    ],
    ids=[
        "cell of 2^-11",
        "cell of 2^-9",
        "cell of 2^-15",
        "peepholes and projection",
        "without intermediates",
        "one step",
    ],
)
def test_an_integer_lstm_is_exact(data: bytes, tmp_path: Path) -> None:
    samples = random_samples(data, STEPS, 1)
    assert_equal_steps(run_generated(data, samples, tmp_path, SANITIZED), data, samples)
    assert not lowered(data).kernels.float_operators
    assert (tmp_path / "sources/network/network_lstm_gates.h").is_file()


@pytest.mark.parametrize(("exponent", "name"), [(-32, "gate_scale"), (-33, "fixed_scale_any")])
def test_the_fast_scaling_of_gates_shifts_at_most_31_bits(exponent: int, name: str) -> None:
    values = tirx.Var("values", "int32")
    assert name in str(scale_values(values, np.float32(2.0**exponent), 32767**2))


def test_the_dsp_instructions_of_an_integer_lstm_are_exact(tmp_path: Path) -> None:
    data = write_integer_lstm(12, -11, 3, clip=10)
    samples = random_samples(data, 1, 1)
    ((expected,),) = run_generated(data, samples, tmp_path / "host")
    found = run_on(data, samples[0], "cortex-m4-bare", tmp_path / "core")
    np.testing.assert_array_equal(found, expected)
    notes = [k.note for k in lowered(data, platform="cortex-m4-bare").kernels.kernels]
    assert sum("Form dsp_sums" in (note or "") for note in notes) == 24


@pytest.mark.parametrize("write", [write_svdf_keywords, write_streaming_dscnn])
def test_keyword_networks_are_exact(write: Callable[[], bytes], tmp_path: Path) -> None:
    data = write()
    samples = random_samples(data, STEPS, 2)
    assert_equal_steps(run_generated(data, samples, tmp_path), data, samples)
    assert not lowered(data).kernels.float_operators


def test_next_values_take_room_of_their_own_for_a_step_alone() -> None:
    network = lowered(write_svdf_keywords())
    largest = max(state.bytes for state in network.plan.states)
    assert network.plan.state_copies == ()
    assert network.plan.arena_bytes < network.plan.state_bytes + 1.2 * largest


@pytest.mark.parametrize(
    "data",
    [
        write_svdf_network([(6, 2, 5), (4, 1, 3)], quantized=False),
        write_lstm_network(),
        write_lstm_network(coupled=True, time_major=True, extended=True),
        write_lstm_step(),
        write_bidirectional_lstm(auxiliary=True, linked=True),
        write_svdf_network([(6, 2, 5), (4, 1, 3)], quantized=False, dynamic_range=True),
        write_lstm_network(dynamic_range=True, extended=True),
        write_lstm_network(coupled=True, time_major=True, dynamic_range=True),
        write_bidirectional_lstm(auxiliary=True, dynamic_range=True, merged=True),
    ],
    ids=[
        "svdf",
        "lstm",
        "lstm of coupled gates with peepholes, projection and normalization",
        "one step",
        "bidirectional lstm of two inputs",
        "svdf of bytes",
        "lstm of bytes with peepholes, projection and normalization",
        "lstm of bytes and coupled gates",
        "bidirectional lstm of bytes",
    ],
)
def test_layers_in_float(data: bytes, tmp_path: Path) -> None:
    samples = random_samples(data, STEPS, 1)
    found = run_generated(data, samples, tmp_path, SANITIZED)
    expected = FORMATS["tflite"].load().run_reference(data, samples).outputs
    np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-5, atol=1e-6)


def test_the_last_reader_of_a_state_makes_room_for_its_next_value() -> None:
    plan = lowered(write_variable_network()).plan
    assert plan.state_copies == ()
    assert plan.locations["region_001_add_result"] == plan.locations["state_0"]


FLOATS = 8


def port(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, FLOATS])


def write_taps() -> bytes:
    """Return y = 0.5 a + x + b + c, with a' = 0.5 a + x, b' = a, c' = d and d' = c."""
    nodes = [
        helper.make_node("Mul", ["a", "half"], ["scaled"]),
        helper.make_node("Add", ["scaled", "x"], ["a_next"]),
        helper.make_node("Identity", ["a"], ["b_next"]),
        helper.make_node("Identity", ["d"], ["c_next"]),
        helper.make_node("Add", ["c", "x"], ["d_next"]),
        helper.make_node("Sum", ["a_next", "b", "c"], ["y"]),
    ]
    states = "abcd"
    graph = helper.make_graph(
        nodes, "taps", [port("x"), *map(port, states)],
        [*(port(f"{s}_next") for s in states), port("y")],
        [numpy_helper.from_array(np.full(1, 0.5, "float32"), "half")],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return bytes(model.SerializeToString())


TAPS = {"a": "a_next", "b": "b_next", "c": "c_next", "d": "d_next"}


def compile_taps() -> tuple[Network, tuple[State, ...]]:
    module, interface = FORMATS["onnx"].load().import_model(write_taps(), "taps", {})
    module, interface = pair_states(module, interface, TAPS)
    mix = load_mix(parse_target("c"), HOST, "onnx")
    return compile_network(module, interface, mix), interface.states


@pytest.mark.parametrize("caller_arena", [False, True])
def test_states_change_all_at_once(caller_arena: bool, tmp_path: Path) -> None:
    network, states = compile_taps()
    generator = np.random.default_rng(3)
    samples = [{"x": generator.normal(size=(1, FLOATS)).astype("float32")} for _ in range(STEPS)]
    network = replace(network, caller_arena=caller_arena)
    ran = executed(network, samples, tmp_path, SANITIZED)
    found = decode_outputs(ran.console, network.interface.outputs, STEPS, ran.exit_code)
    expected = FORMATS["onnx"].load().run_reference(write_taps(), samples, states).outputs
    np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-5, atol=1e-6)


def make_leaky_counter() -> bytes:
    """Return an integer network defined in Python: y = (x + h) >> 1, and h' = y."""
    graph = Graph()
    x, h = graph.input("x", (1, 6)), graph.input("h", (1, 6))
    y = graph.add(x, h, "y", shift_bits=1)
    graph.output(graph.emit(relax.op.maximum(y, x), "z"), y)
    return str(tvm.ir.save_json(graph.module())).encode()


def test_a_network_of_python_names_its_states(tmp_path: Path) -> None:
    data, importer = make_leaky_counter(), FORMATS["relax"].load()
    module, interface = pair_states(*importer.import_model(data, "net", {}), {"h": "y"})
    network = compile_network(module, interface, load_mix(parse_target("c"), HOST, "onnx"))
    generator = np.random.default_rng(4)
    samples = [{"x": generator.integers(-99, 99, (1, 6)).astype("int8")} for _ in range(STEPS)]
    ran = executed(network, samples, tmp_path, SANITIZED)
    found = decode_outputs(ran.console, network.interface.outputs, STEPS, ran.exit_code)
    expected = importer.run_reference(data, samples, interface.states).outputs
    np.testing.assert_array_equal(np.array(found), np.array(expected))


TWO_INSTANCES = """
#include <stdio.h>
#include <string.h>
#include "network.h"

static _Alignas(16) uint8_t arenas[2][NETWORK_WORKSPACE_SIZE];

int main(void)
{
    network_context contexts[2];
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, first[8], y[8];
    const network_inputs inputs = {.x = x};
    network_outputs outputs = {.y = y};

    memset(arenas, 0x55, sizeof arenas);
    for (int i = 0; i < 2; i++) {
        if (network_init(&contexts[i], arenas[i], sizeof arenas[i]) != 0) {
            return 1;
        }
    }
    for (int step = 0; step < 5; step++) {
        network_run(&contexts[0], &inputs, &outputs);
        if (step == 0) {
            memcpy(first, y, sizeof y);
        }
        memset(arenas[0] + NETWORK_STATE_BYTES, 0xaa, sizeof arenas[0] - NETWORK_STATE_BYTES);
    }
    if (memcmp(first, y, sizeof y) == 0) {
        return 2;
    }
    network_run(&contexts[1], &inputs, &outputs);
    if (memcmp(first, y, sizeof y) != 0) {
        return 3;
    }
    if (network_reset(&contexts[0]) != 0 || network_reset(NULL) != -1) {
        return 4;
    }
    network_run(&contexts[0], &inputs, &outputs);
    return memcmp(first, y, sizeof y) == 0 ? 0 : 5;
}
"""


def test_each_instance_has_states_of_its_own_and_forgets_them(tmp_path: Path) -> None:
    network, _ = compile_taps()

    def put_program(sources: Path) -> None:
        (sources / "demo" / "main.c").write_text(TWO_INSTANCES, encoding="utf-8")

    network = replace(network, caller_arena=True)
    assert executed(network, [], tmp_path, ("-O1",), put_program).exit_code == 0
