"""Golden samples and hooks in the firmware: the self-test names the layer that has a fault."""

from __future__ import annotations

import json
import subprocess
import zlib
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from firmwright.ir.array_files import read_arrays
from tests.e2e.conftest import Repository, new_repository
from tests.lowering.test_tflite_networks import mirrored

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
RECIPE = """\
model: {name}.onnx
target: c
platform: host
toolchain: gcc
selftest: {samples}
hooks: true
arena: caller
run: {{samples: 2}}
"""
FAULTS = """\
#include <stdio.h>

#include "network.h"

static union {{
    uint8_t bytes[NETWORK_WORKSPACE_SIZE];
    double aligned[2];
}} arena __attribute__((aligned(NETWORK_WORKSPACE_ALIGNMENT)));
static {c_type} scores[NETWORK_OUTPUT_{member}_ELEMENTS];
static int32_t broken, begun;

void network_before(int32_t layer)
{{
    begun = layer;
}}

/* All that the layer could have written becomes wrong. */
void network_after(int32_t layer)
{{
    if (begun != layer) {{
        printf("after without before ");
    }}
    if (layer == broken) {{
        for (uint32_t i = 0; i < sizeof arena.bytes; i++) {{
            arena.bytes[i] ^= 0x55u;
        }}
        for (uint32_t i = 0; i < sizeof scores; i++) {{
            ((uint8_t *)scores)[i] ^= 0x55u;
        }}
    }}
}}

int main(void)
{{
    network_context context;
    network_outputs outputs = {{ scores }};

    if (network_init(&context, arena.bytes, sizeof arena.bytes) != 0) {{
        return 1;
    }}
    for (broken = 0; broken <= NETWORK_LAYERS; broken++) {{
        const int32_t wrong = network_selftest(&context, &outputs);
        printf("%d:%s ", (int)wrong, wrong ? network_layer_name(wrong) : "right");
    }}
    return 0;
}}
"""


def build(folder: Path, name: str, samples: str) -> Repository:
    repository = new_repository(folder)
    repository.write(f"{name}.yaml", RECIPE.format(name=name, samples=samples))
    done = repository.doit("build", f"recipe={name}")
    assert done.returncode == 0, done.stdout + done.stderr
    return repository


def find_faults(stages: Path, folder: Path, c_type: str, member: str) -> list[str]:
    """Return the results of the self-test without a fault, and with a fault after each layer."""
    program = folder / "faults.c"
    program.write_text(FAULTS.format(c_type=c_type, member=member))
    network = stages / "sources/network"
    sources = [str(path) for path in (program, *sorted(network.glob("*.c")))]
    command = ["gcc", *STRICT, f"-I{network}", *sources, "-lm", "-o", str(folder / "faults")]
    subprocess.run(command, check=True)
    return subprocess.check_output([folder / "faults"], text=True).split()


@pytest.mark.needs("gcc")
def test_a_fault_is_named_by_its_layer(tmp_path: Path) -> None:
    repository = build(tmp_path, "digits", "2")
    stages = repository.folder / "build/digits/host"
    golden = read_arrays(stages / "selftest/golden.npz")
    partition = json.loads((stages / "partition/partition.json").read_text())
    layers = [region["name"] for region in partition["regions"] if not region.get("view")]
    named = [f"{number}:{layer}" for number, layer in enumerate(layers, 1)]
    assert find_faults(stages, tmp_path, "int8_t", "SCORES") == ["0:right", *named]

    last = [zlib.crc32(output.tobytes()) for output in golden["output_0"]]
    assert golden["checksums"].shape == (2, len(layers))
    assert golden["checksums"][:, -1].tolist() == last

    # The firmware runs the self-test at its start.
    program = stages / "sources/network/network_selftest.c"
    checksum = f"0x{golden['checksums'][1, 2]:08x}u"
    text = program.read_text()
    assert text.count(checksum) == 1
    program.write_text(text.replace(checksum, "0x12345678u"))
    sources = [str(path) for path in (stages / "sources").rglob("*.c")]
    folders = [f"-I{stages}/sources/{name}" for name in ("network", "board")]
    subprocess.run(["gcc", *folders, *sources, "-lm", "-o", tmp_path / "firmware"], check=True)
    ran = subprocess.run([tmp_path / "firmware"], input=b"", capture_output=True, check=False)
    assert ran.returncode == 1
    assert ran.stdout.decode() == f"the self-test found another result: {layers[2]}\n"


@pytest.mark.needs("gcc")
def test_floats_are_compared_at_the_outputs(tmp_path: Path) -> None:
    """Float layers have no checksums, because another compiler may add in another order."""
    weights = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Softmax", ["product"], ["scores"]),
    ]
    graph = helper.make_graph(
        nodes,
        "floats",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 4])],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "f.onnx")
    repository = build(tmp_path, "f", "true")
    recorded = find_faults(repository.folder / "build/f/host", tmp_path, "float", "SCORES")
    layers = len(recorded) - 1
    assert recorded == ["0:right", *[f"{layers + 1}:outputs"] * layers]


def test_outputs_a_step_beside_the_reference_are_right(tmp_path: Path) -> None:
    """Golden samples are from the firmware's C; ONNX Runtime's integers may differ by one step."""
    repository = new_repository(tmp_path)
    model = mirrored("resnet8_qdq.onnx")
    repository.write(
        "resnet8.yaml",
        f"model: {model}\ntarget: c\nplatform: rv32-bare\nselftest: 2\nrun: {{samples: 2}}\n",
    )
    done = repository.doit("build", "recipe=resnet8")
    assert done.returncode == 0, done.stdout + done.stderr
    stages = repository.folder / "build/resnet8/rv32-bare"
    assert json.loads((stages / "run/run.json").read_text())["exact_samples"] < 2
