"""The folder ``network`` of a project is complete for a program, also with a second network."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from firmwright.models import FORMATS
from firmwright.project.network import Network
from firmwright.project.write import write_project
from firmwright.toolchain import Build, load_platform, load_toolchain
from tests.networks.firmware import lowered
from tests.networks.qdq_graphs import Graph
from tests.networks.qdq_reference import Array, Grid

HOST = Build(load_toolchain("gcc"), load_platform("host"))
NAMES = ("yes", "no", '"?\u00fc')
PREFIXES = ("kws", "vww")
SHAPE = (2, 16)
FINE, COARSE = Grid("int8", np.float32(0.05), 3), Grid("int8", np.float32(0.4), -7)
STRICT = ("-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic")

PROGRAM = """\
#include <stdio.h>

#include "kws.h"
#include "vww.h"

int main(void)
{
    static KWS_INPUT_INPUT_0_TYPE kws_input[KWS_INPUT_INPUT_0_ELEMENTS];
    static VWW_INPUT_INPUT_0_TYPE vww_input[VWW_INPUT_INPUT_0_ELEMENTS];
    static KWS_OUTPUT_%(output)s_TYPE kws_output[KWS_OUTPUT_%(output)s_ELEMENTS];
    static VWW_OUTPUT_%(output)s_TYPE vww_output[VWW_OUTPUT_%(output)s_ELEMENTS];
    kws_inputs first = {kws_input};
    vww_inputs second = {vww_input};
    kws_outputs first_result = {kws_output};
    vww_outputs second_result = {vww_output};
    if (fread(kws_input, sizeof kws_input, 1, stdin) != 1 || kws_run(&first, &first_result) != 0) {
        return 1;
    }
    if (fread(vww_input, sizeof vww_input, 1, stdin) != 1) {
        return 2;
    }
    if (vww_run(&second, &second_result) != 0) {
        return 3;
    }
    fwrite(kws_output, sizeof kws_output, 1, stdout);
    fwrite(vww_output, sizeof vww_output, 1, stdout);
    return 0;
}
"""


def unchecked(*_: object) -> Array:
    """The reference runtime computes the expected results."""
    raise AssertionError


def make_model(seed: int) -> bytes:
    """Return two dense layers and an average; two models differ only in their weights."""
    graph = Graph()
    _, real = graph.input(SHAPE, FINE)
    random = np.random.default_rng(seed)
    for _ in range(2):
        stored = random.integers(-127, 128, (16, 16), "int8")
        weights = graph.weights(stored, np.full(16, 0.01, "float32"), 0, 1)
        real = graph.node("MatMul", [real, weights])
        rounded = graph.node("QuantizeLinear", [real, *graph.grid(COARSE)])
        real = graph.node("DequantizeLinear", [rounded, *graph.grid(COARSE)])
    graph.output(graph.node("Softmax", [real]), FINE, unchecked)
    return graph.build()


def write_network(seed: int, prefix: str, folder: Path) -> Network:
    network = replace(lowered(make_model(seed), "onnx"), c_prefix=prefix, name=prefix)
    write_project(network, HOST, folder)
    return network


@pytest.mark.needs("gcc")
def test_two_networks_lie_in_one_folder_and_both_are_right(tmp_path: Path) -> None:
    flat = tmp_path / "flat"
    flat.mkdir()
    networks = {name: write_network(n, name, tmp_path / name) for n, name in enumerate(PREFIXES)}
    layers = [{file.name for k in n.kernels.kernels for file in k.files} for n in networks.values()]
    assert set.intersection(*layers)  # layers' functions with equal names
    for name in networks:
        for path in (tmp_path / name / "network").iterdir():
            assert path.name.startswith(f"{name}_") or path.stem == name
            assert not (flat / path.name).exists()
            shutil.copyfile(path, flat / path.name)
    member = next(iter(networks.values())).interface.outputs[0].name
    (flat / "main.c").write_text(PROGRAM % {"output": member.upper()})
    sources = sorted(path.name for path in flat.glob("*.c"))
    subprocess.run(["gcc", *STRICT, "-o", "program", *sources, "-lm"], cwd=flat, check=True)
    samples = [np.random.default_rng(5).integers(-128, 128, SHAPE, "int8")] * 2
    ran = subprocess.run(
        [flat / "program"], input=b"".join(s.tobytes() for s in samples), stdout=-1, check=True
    )
    expected = [
        FORMATS["onnx"].load().run_reference(make_model(n), [{"input_0": sample}]).outputs[0][0]
        for n, sample in enumerate(samples)
    ]
    assert ran.stdout == b"".join(array.tobytes() for array in expected)
    assert expected[0].tobytes() != expected[1].tobytes()


HEADER_ALONE = """\
#include "kws.h"

static const int shape[KWS_INPUT_INPUT_0_RANK] = KWS_INPUT_INPUT_0_SHAPE;
static const char *const names[KWS_CLASSES] = KWS_CLASS_NAMES;

int main(void)
{
    const KWS_INPUT_INPUT_0_TYPE input[KWS_INPUT_INPUT_0_ELEMENTS] = {KWS_INPUT_INPUT_0_ZERO_POINT};
    const float real = KWS_INPUT_INPUT_0_SCALE * (float)(input[1] - KWS_INPUT_INPUT_0_ZERO_POINT);
    const char text[] = KWS_INPUT_INPUT_0_DTYPE;
    return !(sizeof input == KWS_INPUT_INPUT_0_BYTES && shape[0] == 2 && shape[1] == 16 &&
             text[0] == 'i' && names[1][0] == 'n' && real > -0.151F && real < -0.149F &&
             KWS_INPUTS == 1 && KWS_OUTPUTS == 1 && kws_quantize_input_0(real) == 0 &&
             kws_quantize_input_0(0.025F) == 4 && kws_quantize_input_0(0.0249F) == 3 &&
             kws_quantize_input_0(-0.025F) == 2 && kws_quantize_input_0(1e30F) == 127 &&
             kws_quantize_input_0(-1e30F) == -128 && kws_dequantize_scores(3) == 2.0F);
}
"""
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-pedantic", "-Werror")


@pytest.mark.needs("gcc", "g++", "clang")
def test_the_header_alone_says_what_a_caller_must_know(tmp_path: Path) -> None:
    network = replace(lowered(make_model(0), "onnx"), c_prefix="kws", class_names=NAMES)
    port = replace(network.interface.inputs[0], scale=0.05, zero_point=3)
    scores = replace(network.interface.outputs[0], name="scores", scale=0.5, zero_point=-1)
    described = replace(network.interface, inputs=(port,), outputs=(scores,))
    network = replace(network, interface=described)
    write_project(network, HOST, tmp_path)
    (tmp_path / "app.c").write_text(HEADER_ALONE)
    for compiler in (["gcc", "-std=c99"], ["clang", "-std=c99"], ["g++", "-std=c++17", "-xc++"]):
        command = [*compiler, *WARNINGS, "-Inetwork", "app.c", "-o", "app"]
        subprocess.run(command, cwd=tmp_path, check=True)
        assert subprocess.run([tmp_path / "app"]).returncode == 0


def test_the_same_is_there_as_json(tmp_path: Path) -> None:
    network = write_network(0, "kws", tmp_path)
    text = (tmp_path / "network" / "kws_interface.json").read_text()
    described = json.loads(text)
    assert text == json.dumps(described, indent=1, sort_keys=True) + "\n"
    schema = json.loads(files("firmwright.project").joinpath("interface.schema.json").read_text())
    assert described.pop("$schema") == "interface.schema.json"
    jsonschema.validate(described, schema)
    (given,), (made,) = described["inputs"], described["outputs"]
    assert (given["member"], given["shape"], given["dtype"]) == ("input_0", [2, 16], "int8")
    assert (made["name"], made["bytes"]) == (network.interface.outputs[0].name, 32)
    assert described["arena_bytes"] == {"ram": network.plan.arena_bytes}
    assert described["constant_bytes"] == sum(a.nbytes for a in network.weights.values())


@pytest.mark.needs("gcc", "clang")
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_it_compiles_alone_without_a_warning(tmp_path: Path, compiler: str) -> None:
    write_network(0, "kws", tmp_path)
    sources = sorted(f"network/{path.name}" for path in (tmp_path / "network").glob("*.c"))
    command = [compiler, "-std=c99", "-O1", "-Wall", "-Wextra", "-Wshadow", "-pedantic", "-Werror"]
    subprocess.run([*command, "-Inetwork", "-fsyntax-only", *sources], cwd=tmp_path, check=True)
