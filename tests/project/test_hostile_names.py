"""Names of inputs and outputs that C, C++, Arduino.h or a microcontroller's header reserves."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from onnx import TensorProto, helper

from firmwright.compile import compile_network
from firmwright.models import FORMATS
from firmwright.project.write import write_project
from firmwright.recipe.target import parse_target
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import Build, load_toolchain

from .exported import ANY

ARDUINO = """
#define HIGH 0x1
#define PI 3.1415926535897932384626433832795
#define INPUT 0x0
#define F_CPU 16000000L
#define B1 1
#define B00000001 1
#define DEC 10
#define HEX 16
#define ADC (*(volatile unsigned short *)0x78)
#define SP (*(volatile unsigned short *)0x5d)
#define PORTB (*(volatile unsigned char *)0x25)
#define PB5 5
#define min(a,b) ((a)<(b)?(a):(b))
#define abs(x) ((x)>0?(x):-(x))
#define round(x) ((x)>=0?(long)((x)+0.5):(long)((x)-0.5))
#define F(string) ((const char *)(string))
#define bit(b) (1UL << (b))
#define word(...) makeWord(__VA_ARGS__)
"""
"""Macros of Arduino.h and of avr-libc's <avr/io.h>, as they are in the AVR core."""
INPUTS = (
    *("HIGH", "PI", "INPUT", "F_CPU", "B1", "B00000001", "DEC", "HEX", "ADC", "SP", "PORTB", "PB5"),
    *("min", "round", "F", "bit", "word", "int", "class", "größe", "grüße", "a b", "a_b", "A-B"),
    *("温度", "1", "", "x" * 90, "x" * 91, "NULL", "__FILE__", "assert", "inputs", "network_run"),
)
OUTPUTS = ("abs", "return", "outputs", "温度")


def write_network(folder: Path) -> Path:
    """Write the network with these names, and return the folder of its C."""
    names = [name or "unnamed" for name in INPUTS]
    outputs = [f"{name}\u200b" if name in names else name for name in OUTPUTS]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 2]) for n in names]
    results = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 2]) for n in outputs]
    nodes = [helper.make_node("Sum", names, [outputs[0]])]
    nodes += [helper.make_node("Relu", [outputs[0]], [name]) for name in outputs[1:]]
    graph = helper.make_graph(nodes, "g", values, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    data = model.SerializeToString()
    module, interface = FORMATS["onnx"].load().import_model(data, "hostile", {})
    network = compile_network(module, interface, load_mix(parse_target("c"), ANY, "onnx"))
    network = replace(network, name="hostile")
    write_project(network, Build(load_toolchain("gcc"), ANY), folder)
    return folder / "network"


@pytest.mark.needs("gcc", "g++")
def test_every_header_compiles_after_the_macros(tmp_path: Path) -> None:
    network = write_network(tmp_path / "project")
    (tmp_path / "Arduino.h").write_text(ARDUINO)
    header = (network / "network.h").read_text("utf-8")
    members = re.findall(r"^    (?:const )?float \*(\w+);", header, re.M)
    assert len(members) == len(INPUTS) + len(OUTPUTS)
    assert all(name.isascii() for name in members)
    assigned = "".join(f"    inputs.{name} = x;\n" for name in members[: len(INPUTS)])
    program = f"""
        #include "Arduino.h"
        #include <network.h>
        int set(const float *x, float *y);
        int set(const float *x, float *y) {{
            network_inputs inputs;
            network_outputs outputs;
            {assigned}
            outputs.{members[-1]} = y;
            return network_run(&inputs, &outputs);
        }}
    """
    for compiler, suffix, standard in (("gcc", "c", "c99"), ("g++", "cpp", "c++17")):
        (tmp_path / f"program.{suffix}").write_text(program)
        command = [compiler, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
        command += [f"-I{network}", "-fsyntax-only", f"program.{suffix}"]
        subprocess.run(command, cwd=tmp_path, check=True)
    sources = sorted(map(str, network.glob("*.c")))
    subprocess.run(["gcc", "-std=c99", "-fsyntax-only", "-Werror", *sources], check=True)
