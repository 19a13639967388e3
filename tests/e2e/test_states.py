"""A recurrent network whose recipe names its state is built, run over 100 steps, and tested."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.e2e.conftest import Repository, new_repository

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
RECIPE = """\
model: {{path: gru.onnx, state: {{h: {output}}}}}
platform: host
toolchain: gcc
arena: caller
selftest: 3
{more}
run: {{samples: 100}}
"""
PROGRAM = """\
#include <stdio.h>

#include "network.h"

static union {
    uint8_t bytes[NETWORK_WORKSPACE_SIZE];
    double aligned[2];
} arena __attribute__((aligned(NETWORK_WORKSPACE_ALIGNMENT)));

int main(void)
{
    static const float x[NETWORK_INPUT_X_ELEMENTS] = {1.0f, -1.0f, 0.5f};
    static float y[2][NETWORK_OUTPUT_Y_ELEMENTS];
    const network_inputs inputs = {x};
    network_outputs outputs = {y[0]};
    static network_context context;

    if (network_reset(&context) != -4 || network_init(&context, arena.bytes, sizeof arena.bytes)) {
        return 1;
    }
    network_run(&context, &inputs, &outputs);
    if (network_selftest(&context, &outputs) != 0 || network_selftest(&context, &outputs) != 0) {
        return 2;
    }
    network_run(&context, &inputs, &outputs);
    outputs.y = y[1];
    network_reset(&context);
    network_run(&context, &inputs, &outputs);
    for (uint32_t i = 0; i < NETWORK_OUTPUT_Y_ELEMENTS; i++) {
        if (y[0][i] < y[1][i] || y[0][i] > y[1][i]) {
            return 3;
        }
    }
    printf("%u bytes of states\\n", (unsigned)NETWORK_STATE_BYTES);
    return 0;
}
"""


def write_gru(path: Path) -> None:
    """Save a GRU of 4 units over one frame of 3 features, with its state as input and output."""
    generator = np.random.default_rng(2)
    weights = {"w": (1, 12, 3), "r": (1, 12, 4)}
    graph = helper.make_graph(
        [
            helper.make_node("GRU", ["x", "w", "r", "", "", "h"], ["all", "h_next"], hidden_size=4),
            helper.make_node("Squeeze", ["all"], ["y"]),
        ],
        "gru",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 3]),
            helper.make_tensor_value_info("h", TensorProto.FLOAT, [1, 1, 4]),
        ],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [4]),
            helper.make_tensor_value_info("h_next", TensorProto.FLOAT, [1, 1, 4]),
        ],
        [
            numpy_helper.from_array(generator.normal(size=shape).astype("float32"), name)
            for name, shape in weights.items()
        ],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def build(repository: Repository, output: str = "h_next", more: str = "") -> tuple[int, str]:
    write_gru(repository.folder / "gru.onnx")
    repository.write("gru.yaml", RECIPE.format(output=output, more=more))
    done = repository.doit("build", "recipe=gru")
    return done.returncode, done.stdout + done.stderr


@pytest.mark.needs("gcc")
def test_a_recurrent_network_goes_on_and_forgets(tmp_path: Path) -> None:
    repository = new_repository(tmp_path)
    status, text = build(repository)
    assert status == 0, text
    assert "keeps 16 bytes between runs: h" in text
    stages = repository.folder / "build/gru/host"
    network = stages / "sources/network"
    interface = json.loads((network / "network_interface.json").read_text())
    assert [port["name"] for port in (*interface["inputs"], *interface["outputs"])] == ["x", "y"]
    (state,) = interface["states"]
    assert (state["name"], state["offset"], interface["reset"]) == ("h", 0, "network_reset")
    (tmp_path / "program.c").write_text(PROGRAM)
    sources = [str(path) for path in (tmp_path / "program.c", *sorted(network.glob("*.c")))]
    program = tmp_path / "program"
    subprocess.run(["gcc", *STRICT, f"-I{network}", *sources, "-lm", "-o", program], check=True)
    assert subprocess.check_output([program], text=True) == "16 bytes of states\n"


@pytest.mark.parametrize(
    ("output", "more", "message"),
    [
        (
            "h_nxt",
            "",
            "gru.yaml:1:36: model.state.h: the model has no output 'h_nxt'; did",
        ),
        (
            "y",
            "",
            "state 'h' is float32 [1, 1, 4], its next value 'y' float32 [4]",
        ),
        (
            "h_next",
            "batch: 2",
            "gru.yaml:6:8: batch: a network with states ('h') processes samples",
        ),
    ],
)
def test_what_is_wrong_has_its_place(output: str, more: str, message: str, tmp_path: Path) -> None:
    status, text = build(new_repository(tmp_path), output, more)
    assert status == 1
    assert message in text
    assert "Traceback" not in text
