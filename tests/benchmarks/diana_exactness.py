"""Run MLPerf Tiny's networks on the emulated DIANA, and compare every value with numpy.

    FIRMWRIGHT_MIRROR=… python -m tests.benchmarks.diana_exactness

Inputs are real pictures and keywords, or random if there are no recorded ones. Numpy evaluates the
arithmetic of the accelerator (tests/devices/soma_dory/reference.py).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

from firmwright.data.arrays import dequantize_array, quantize_array
from tests.devices.soma_dory.reference import evaluated
from tests.devices.soma_dory.shift_networks import shifted_network
from tests.lowering.test_tflite_networks import real_inputs
from tests.ready_recipes import read_ready

ROOT = Path(__file__).parents[2]
SAMPLES = {"resnet8": 160, "kws": 200, "vww": 20, "ad": 200}
HEADER = (
    "| network | inputs | values that differ from numpy | from TVM's virtual machine "
    "| instructions | MACs on the accelerator, % |\n|---|---|---|---|---|---|"
)

Array = npt.NDArray[Any]


def inputs_of(name: str) -> tuple[str, Array]:
    """Return the kind of the inputs, and the inputs, as integers of the original network."""
    _, _, original = shifted_network(name)
    count = SAMPLES[name]
    real = real_inputs(name)[:count]
    if real:
        return f"{len(real)} real", np.stack([x.reshape(original.shape[1:]) for x in real])
    shape = (count, *original.shape[1:])
    return f"{count} random", np.random.default_rng(1).integers(-128, 128, shape, "int8")


def write_recipe(name: str, inputs: Array, folder: Path) -> Path:
    recipe = read_ready(f"{name}-diana")
    np.save(folder / f"{name}.npy", inputs)
    recipe["run"] = {"samples": len(inputs), "inputs": f"{name}.npy"}
    path = folder / f"{name}-diana.yaml"
    path.write_text(yaml.safe_dump(recipe), "utf-8")
    return path


def row(name: str, what: str, inputs: Array, built: Path) -> str:
    module, interface, original = shifted_network(name)
    (tensor,) = interface.inputs
    firmware = np.load(built / "diana" / "run" / "outputs.npz")["firmware_0"]
    different = 0
    for given, found in zip(inputs, firmware, strict=True):
        sample = quantize_array(dequantize_array(given.reshape(original.shape), original), tensor)
        (expected,) = evaluated(module, {tensor.name: sample.reshape(tensor.shape)})
        different += int(np.count_nonzero(expected != found))
    run = json.loads((built / "diana" / "run" / "run.json").read_text("utf-8"))
    partition = json.loads((built / "diana" / "partition" / "partition.json").read_text("utf-8"))
    taken = sum(r["macs"] for r in partition["regions"] if r["device"] == "soma_dory")
    cells = (
        name,
        what,
        f"{different} of {firmware.size}",
        f"{run['differences']} of {run['values']}",
        f"{run['instructions']:,}",
        f"{100 * taken / run['macs']:.2f}",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    print(HEADER)
    with tempfile.TemporaryDirectory() as scratch:
        for name in SAMPLES:
            what, inputs = inputs_of(name)
            recipe = write_recipe(name, inputs, Path(scratch))
            built = Path(scratch) / "build" / name
            subprocess.run(
                [sys.executable, "-m", "doit", "build", f"recipe={recipe}", f"outdir={built}"],
                cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
            )  # fmt: skip
            print(row(name, what, inputs, built), flush=True)


if __name__ == "__main__":
    main()
