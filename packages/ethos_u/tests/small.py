"""Writes a small network, and builds recipes with this network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from firmwright_ethos_u.flatbuffer import NetworkWriter

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


def build(
    folder: Path, recipe: str, network: bytes | None = None
) -> subprocess.CompletedProcess[str]:
    """Write a network and a recipe into a folder, and build the recipe."""
    (folder / "network.tflite").write_bytes(network or write_network())
    (folder / "recipe.yaml").write_text(f"model: network.tflite\n{recipe}", encoding="utf-8")
    command = [sys.executable, "-m", "firmwright", "build", "recipe.yaml"]
    scripts = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
