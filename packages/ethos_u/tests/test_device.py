"""A recipe with the target `ethos_u, c` builds, and its firmware computes LiteRT's outputs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from firmwright_ethos_u.flatbuffer import NetworkWriter

RECIPE = """\
model: network.tflite
platform: board.yaml
target: "ethos_u -accelerator=ethos-u55-64, c"
"""
PLATFORM = """\
name: board
description: This machine, with a simulated Ethos-U.
architecture: native
board: posix
accelerators:
  ethos_u: {}
toolchains: [gcc]
emulators: [native]
"""
RELU6 = 3


def write_network() -> bytes:
    """Return two convolutions, of which the second is depthwise, and a softmax."""
    rng = np.random.default_rng(1)
    writer = NetworkWriter()
    options = {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}
    tensors = [
        writer.tensor((1, 6, 5, depth), "int8", [scale], zero)
        for depth, scale, zero in ((3, 0.05, 4), (8, 0.06, -100), (8, 0.08, -20))
    ]
    tensors.append(writer.tensor((1, 6, 5, 8), "int8", [1 / 256], -128))
    for number, shape in enumerate([(8, 3, 3, 3), (1, 3, 3, 8)]):
        scales = rng.uniform(0.002, 0.01, 8).tolist()
        weights = writer.constant(rng.integers(-127, 128, shape).astype("int8"), scales, 3 * number)
        sums = [(0.05, 0.06)[number] * scale for scale in scales]
        bias = writer.constant(rng.integers(-900, 900, 8).astype("int32"), sums)
        name, table = ("CONV_2D", "Conv2DOptions")
        values = {**options, "fusedActivationFunction": RELU6}
        if number:
            name, table = ("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions")
            values = {**options, "depthMultiplier": 1}
        writer.operator(
            name, [tensors[number], weights, bias], [tensors[number + 1]], table, **values
        )
    writer.operator("SOFTMAX", [tensors[2]], [tensors[3]], "SoftmaxOptions", beta=1.0)
    return writer.build([tensors[0]], [tensors[3]])


def test_recipe(tmp_path: Path) -> None:
    (tmp_path / "network.tflite").write_bytes(write_network())
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    (tmp_path / "board.yaml").write_text(PLATFORM)
    folder = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    build = [sys.executable, "-m", "firmwright", "build", "recipe.yaml"]
    done = subprocess.run(build, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 samples exact, largest difference 0" in done.stdout
    assert "100.0 % on ethos_u" in done.stdout
    (file,) = tmp_path.glob("build/*/*/partition/partition.json")
    devices = [region["device"] for region in json.loads(file.read_text())["regions"]]
    assert devices.count("ethos_u") == 1
