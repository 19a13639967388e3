"""Recipes choose the C names of inputs and outputs, which a TFLite signature names."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.conftest import Repository, new_repository
from tests.models.test_signatures import write_difference

RECIPE = """\
model: difference.tflite
inputs:
  new: {c_name: imu}
  INPUT
outputs: {OUTPUT: {c_name: gesture}}
platform: host
toolchain: gcc
demo: {compare: true}
export: [cmake]
run: {inputs: samples.npz, samples: 2}
"""


def build(folder: Path, old: str, output: str = "outputs_0") -> tuple[Repository, int, str]:
    repository = new_repository(folder)
    (repository.folder / "difference.tflite").write_bytes(write_difference().build())
    samples = np.ones((2, 1, 4), "float32")
    np.savez(repository.folder / "samples.npz", new=samples, old=samples)
    repository.write("d.yaml", RECIPE.replace("INPUT", old).replace("OUTPUT", output))
    done = repository.doit("build", "recipe=d")
    return repository, done.returncode, done.stdout + done.stderr


@pytest.mark.needs("gcc")
def test_header_interface_demo_and_exports_have_the_chosen_names(tmp_path: Path) -> None:
    repository, status, text = build(tmp_path, "old: {c_name: before}")
    assert status == 0, text
    stages = repository.folder / "build/d/host"
    network = stages / "sources/network"
    interface = json.loads((network / "network_interface.json").read_text())
    ports = [*interface["inputs"], *interface["outputs"]]
    assert [(port["name"], port["member"]) for port in ports] == [
        ("new", "imu"),
        ("old", "before"),
        ("outputs_0", "gesture"),
    ]
    program = """
        #include "network.h"
        int main(void) {
            static const float imu[NETWORK_INPUT_IMU_ELEMENTS] = {3.0f};
            static const float before[NETWORK_INPUT_BEFORE_ELEMENTS] = {1.0f};
            static float gesture[NETWORK_OUTPUT_GESTURE_ELEMENTS];
            const network_inputs inputs = {.imu = imu, .before = before};
            network_outputs outputs = {.gesture = gesture};
            return network_run(&inputs, &outputs) != 0 || gesture[0] < 2.0f || gesture[0] > 2.0f;
        }
    """
    (tmp_path / "program.c").write_text(program)
    sources = [str(path) for path in (tmp_path / "program.c", *sorted(network.glob("*.c")))]
    command = ["gcc", "-std=c99", "-Werror", f"-I{network}", *sources, "-lm"]
    subprocess.run([*command, "-o", tmp_path / "program"], check=True)
    subprocess.run([tmp_path / "program"], check=True)
    for header in (stages / "exports").rglob("network.h"):
        assert "const float *imu;" in header.read_text()


@pytest.mark.parametrize(
    ("old", "output", "message"),
    [
        ("older: {c_name: x}", "outputs_0", "d.yaml:4:19: inputs.older.c_name: the model has no"),
        (
            '"serving_default_old:0": {c_name: x}',
            "outputs_0",
            "inputs.serving_default_old:0.c_name: the model has no input 'serving_default_old:0'; ",
        ),
        (
            "old: {c_name: x}",
            '"StatefulPartitionedCall_1:0"',
            "the model has no output 'StatefulPartitionedCall_1:0'; known: outputs_0",
        ),
    ],
)
def test_an_unknown_name_is_rejected_with_the_known_names(
    old: str, output: str, message: str, tmp_path: Path
) -> None:
    _, status, text = build(tmp_path, old, output)
    assert status and message in text, text


def test_a_chosen_name_that_another_input_has_is_rejected(tmp_path: Path) -> None:
    _, status, text = build(tmp_path, "old: {c_name: NEW}")
    assert status == 0, text  # `new` has another C name
    repository = new_repository(tmp_path / "again")
    (repository.folder / "d.tflite").write_bytes(write_difference().build())
    repository.write("d.yaml", "model: d.tflite\ninputs: {new: {c_name: Old}}\nplatform: host\n")
    done = repository.doit("build", "recipe=d")
    assert (
        "d.yaml:2:24: inputs.new.c_name: 'Old' is also the C name of the input 'old'; choose "
        "another name, or state a `c_name` for 'old'"
    ) in done.stdout + done.stderr
