"""Quantise float networks on both kinds of grids; table what it costs on real inputs.

    python tests/benchmarks/quantisation.py FOLDER [--outdir DIR] [--only NETWORK …]

FOLDER holds resnet8_float.onnx, vww_96_float.onnx, ic_160.npz, and in ``diana/`` the trained
float weights and inputs of DS-CNN and MobileNetV1. Every fifth sample calibrates, all judge.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).parents[2]
Array = npt.NDArray[Any]
SCHEMES = {
    "affine": "scheme: affine",
    "affine, per tensor": "scheme: affine\n  per_channel: false",
    "pow2": "scheme: pow2",
    "pow2, per tensor": "scheme: pow2\n  per_channel: false",
    "pow2, equalised, percentile": "scheme: pow2\n  equalize: true",
}
METHODS = {"pow2, equalised, percentile": "percentile"}
MOBILENET_STRIDES = {3: 2, 5: 2, 11: 2}
"""Of the depthwise layers, by position; the weights do not tell. Of all ways to stride three of
the thirteen, this one classifies most of the pictures."""
HEADER = (
    "| network | grids | samples | labels | float32, % | quantised, % | firmware, % "
    "| same class as float (quantised, firmware), % | SNR, dB | firmware in the emulator |\n"
    "|---|---|---|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True)
class Network:
    """A float model, real inputs by sample, the right classes where they are known."""

    name: str
    model: bytes
    inputs: Array
    labels: Array | None


def convolutions(weights: Mapping[str, Array], strides: list[Any], pads: list[Any]) -> bytes:
    """Return convolution, batch normalisation, ReLU … average, product: PyTorch's names."""
    order = sorted((int(n.split(".")[1]), n) for n in weights if n.endswith(".weight"))
    layers = [index for index, name in order if weights[name].ndim == 4]
    dense = next(index for index, name in order if weights[name].ndim == 2)
    nodes, constants, tensor = [], {}, "input"
    for index, stride, pad in zip(layers, strides, pads, strict=True):
        kernel = weights[f"net.{index}.weight"]
        group = kernel.shape[0] if kernel.shape[1] == 1 and index else 1
        constants[f"w{index}"] = kernel
        names = [f"{n}{index}" for n in ("weight", "bias", "running_mean", "running_var")]
        for name in names:
            constants[name] = weights[f"net.{index + 1}.{name.removesuffix(str(index))}"]
        nodes += [
            helper.make_node("Conv", [tensor, f"w{index}"], [f"c{index}"], f"conv{index}",
                             strides=stride, pads=[*pad, *pad], group=group),
            helper.make_node("BatchNormalization", [f"c{index}", *names], [f"n{index}"],
                             f"bn{index}"),
            helper.make_node("Relu", [f"n{index}"], [f"r{index}"], f"relu{index}"),
        ]  # fmt: skip
        tensor = f"r{index}"
    constants["dense_w"], constants["dense_b"] = (
        weights[f"net.{dense}.{n}"] for n in ("weight", "bias")
    )
    nodes += [
        helper.make_node("GlobalAveragePool", [tensor], ["mean"], "pool"),
        helper.make_node("Flatten", ["mean"], ["flat"], "flatten"),
        helper.make_node("Gemm", ["flat", "dense_w", "dense_b"], ["scores"], "dense", transB=1),
    ]
    shape = [1, *INPUT_SHAPES[len(layers)]]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 12])],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    data: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    return data


INPUT_SHAPES = {9: (1, 10, 49), 27: (3, 32, 32)}
"""By the number of convolutions: DS-CNN and MobileNetV1."""


def arrays(path: Path) -> dict[str, Array]:
    with np.load(path) as stored:
        return dict(stored)


def resnet8(folder: Path) -> Network:
    pictures = arrays(folder / "ic_160.npz")
    inputs = pictures["images_u8"].transpose(0, 3, 1, 2).astype("float32")
    model = (folder / "resnet8_float.onnx").read_bytes()
    return Network("ResNet8 (MLPerf Tiny)", model, inputs, pictures["labels"])


def ds_cnn(folder: Path) -> Network:
    weights = arrays(folder / "diana" / "dscnn_weights.npz")
    inputs = arrays(folder / "diana" / "keyword_spotting_inputs.npz")["data"]
    strides = [[2, 2], *[[1, 1]] * 8]
    pads = [[5, 1], *([[1, 1], [0, 0]] * 4)]
    return Network("DS-CNN (DIANA)", convolutions(weights, strides, pads), inputs, None)


def mobilenet(folder: Path) -> Network:
    weights = arrays(folder / "diana" / "mobilenetv1_weights.npz")
    inputs = arrays(folder / "diana" / "image_classification_inputs.npz")["data"]
    steps = [MOBILENET_STRIDES.get(i, 1) for i in range(13)]
    strides = [[1, 1], *(s for n in steps for s in ([n, n], [1, 1]))]
    pads = [[1, 1], *([[1, 1], [0, 0]] * 13)]
    labels = arrays(folder / "ic_160.npz")["labels"]
    return Network("MobileNetV1 (DIANA)", convolutions(weights, strides, pads), inputs, labels)


def visual_wake_words(folder: Path) -> Network:
    pictures = arrays(folder / "ic_160.npz")["images_u8"]
    enlarged = pictures.repeat(3, axis=1).repeat(3, axis=2).transpose(0, 3, 1, 2)
    model = (folder / "vww_96_float.onnx").read_bytes()
    inputs = enlarged.astype("float32") / np.float32(255)
    return Network("MobileNetV1 0.25 (MLPerf Tiny)", model, inputs, None)


NETWORKS: tuple[Callable[[Path], Network], ...] = (resnet8, ds_cnn, mobilenet, visual_wake_words)


def recipe(scheme: str, method: str, labels: bool) -> str:
    return f"""\
model: model.onnx
platform: rv32-bare
quantize:
  {scheme}
  calibration: {{inputs: calibration.npy, method: {method}}}
evaluate:
  inputs: inputs.npy
{"  labels: labels.npy" if labels else ""}
run: {{samples: 2, tolerance: {{absolute: 1}}}}
"""


def row(network: Network, scheme: str, bundle: Path, run: Mapping[str, Any]) -> str:
    record = json.loads((bundle / "accuracy" / "accuracy.json").read_text())
    top1, same = record["top1"], record["agreement"]
    cells = [
        network.name,
        scheme,
        len(record["samples"]),
        "yes" if record["labelled"] else "float's",
        *(f"{top1[k]:.2f}" for k in ("float32", "quantised", "firmware")),
        f"{same['quantised']:.1f}, {same['firmware']:.1f}",
        f"{record['outputs'][0]['quantised']['snr']:.1f}",
        f"{run['differences']} of {run['elements']} values differ",
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--outdir", type=Path)
    parser.add_argument("--only", nargs="*", choices=[n.__name__ for n in NETWORKS])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = options.outdir or Path(scratch)
        print(HEADER)
        for make in NETWORKS:
            if options.only and make.__name__ not in options.only:
                continue
            network = make(options.folder)
            labelled = network.labels is not None
            folder = root / make.__name__
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "dodo.py").write_text("from firmwright.tasks.dodo import *\n")
            (folder / "model.onnx").write_bytes(network.model)
            np.save(folder / "inputs.npy", network.inputs)
            np.save(folder / "calibration.npy", network.inputs[::5])
            if network.labels is not None:
                np.save(folder / "labels.npy", network.labels)
            for index, (name, scheme) in enumerate(SCHEMES.items()):
                file = folder / f"r{index}.yaml"
                file.write_text(recipe(scheme, METHODS.get(name, "minmax"), labelled))
                command = [sys.executable, "-m", "doit", "build", f"recipe={file.name}"]
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
                if done.returncode:
                    print(done.stdout, done.stderr, file=sys.stderr)
                    return 1
                built = folder / "build" / file.stem
                run = json.loads((built / "rv32-bare" / "run" / "run.json").read_text())
                print(row(network, name, built, run["agreement"]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
