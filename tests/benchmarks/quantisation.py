"""Quantise float networks on both kinds of grids; table what it costs on real inputs.

    python tests/benchmarks/quantisation.py FOLDER [--only NETWORK …] [--schemes SCHEME …]

FOLDER holds resnet8_float.onnx, vww_96_float.onnx, ic_160.npz, and in ``diana/`` inputs of the
networks of examples/diana/trained, which find their weights through FIRMWRIGHT_MIRROR. Every fifth
sample calibrates, all judge; the firmware of each network sees them all in the emulator.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import tvm

from firmwright.models import relax
from firmwright.quantize.export import exported
from firmwright.quantize.graph import evaluate
from firmwright.transforms import CANONICAL
from firmwright.user_code import user_function

ROOT = Path(__file__).parents[2]
Array = npt.NDArray[Any]
SCHEMES = {
    "affine": "scheme: affine",
    "affine, compensated": "scheme: affine\n  compensate_rounding: true",
    "affine, equalised": "scheme: affine\n  equalize: true",
    "pow2": "scheme: pow2",
    "pow2, compensated": "scheme: pow2\n  compensate_rounding: true",
    "pow2, equalised": "scheme: pow2\n  equalize: true",
    "pow2, shifts": "scheme: pow2\n  arithmetic: shift",
}
HEADER = (
    "| network | grids | samples | labels | float32, % | quantised, % | firmware, % "
    "| firmware in the emulator, % | same class as float (quantised, firmware), % | SNR, dB "
    "| values that differ in the emulator |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True)
class Network:
    """A float model, real inputs by sample, the right classes where they are known."""

    name: str
    model: bytes
    inputs: Array
    labels: Array | None


def arrays(path: Path) -> dict[str, Array]:
    with np.load(path) as stored:
        return dict(stored)


def resnet8(folder: Path) -> Network:
    pictures = arrays(folder / "ic_160.npz")
    inputs = pictures["images_u8"].transpose(0, 3, 1, 2).astype("float32")
    model = (folder / "resnet8_float.onnx").read_bytes()
    return Network("ResNet8 (MLPerf Tiny)", model, inputs, pictures["labels"])


def trained(function: str) -> Any:
    """Return what a function of examples/diana/trained makes; a network as ONNX."""
    with user_function(f"networks:{function}", ROOT / "examples/diana/trained") as make:
        made = make()
    if isinstance(made, np.ndarray):
        return made
    module, interface = relax.import_model(tvm.ir.save_json(made).encode(), function, {})
    for transform in CANONICAL:
        module = transform.apply(module)
    return exported(module, interface)


def resnet8_diana(folder: Path) -> Network:
    inputs = arrays(folder / "diana" / "image_classification_inputs.npz")["data"]
    labels = arrays(folder / "ic_160.npz")["labels"]
    return Network("ResNet8 (DIANA)", trained("resnet8"), inputs, labels)


def ds_cnn(folder: Path) -> Network:
    inputs = arrays(folder / "diana" / "keyword_spotting_inputs.npz")["data"]
    return Network("DS-CNN (DIANA)", trained("ds_cnn"), inputs, None)


def mobilenet(folder: Path) -> Network:
    labels = arrays(folder / "ic_160.npz")["labels"]
    pictures = trained("enlarged_pictures")
    return Network("MobileNetV1 (DIANA)", trained("mobilenetv1"), pictures, labels)


def visual_wake_words(folder: Path) -> Network:
    pictures = arrays(folder / "ic_160.npz")["images_u8"]
    enlarged = pictures.repeat(3, axis=1).repeat(3, axis=2).transpose(0, 3, 1, 2)
    model = (folder / "vww_96_float.onnx").read_bytes()
    inputs = enlarged.astype("float32") / np.float32(255)
    return Network("MobileNetV1 0.25 (MLPerf Tiny)", model, inputs, None)


NETWORKS: tuple[Callable[[Path], Network], ...] = (
    resnet8,
    resnet8_diana,
    ds_cnn,
    mobilenet,
    visual_wake_words,
)


def recipe(scheme: str, labels: bool, samples: int) -> str:
    return f"""\
model: model.onnx
platform: rv32-bare
quantize:
  {scheme}
  calibration: {{inputs: calibration.npy}}
evaluate:
  inputs: inputs.npy
{"  labels: labels.npy" if labels else ""}
run: {{samples: {samples}, tolerance: {{absolute: 4}}}}
"""


def classes(model: onnx.ModelProto, samples: Sequence[Mapping[str, Array]]) -> Array:
    """Return the class that the model gives to each sample, by its first output."""
    return np.array([next(iter(o.values())).argmax() for o in evaluate(model, list(samples))])


def float_classes(network: Network, model: onnx.ModelProto) -> Array:
    (given,) = model.graph.input
    shape = [d.dim_value for d in given.type.tensor_type.shape.dim]
    return classes(model, [{given.name: x.reshape(shape)} for x in network.inputs])


def row(network: Network, scheme: str, built: Path) -> str:
    record = json.loads((built / "accuracy" / "accuracy.json").read_text())
    top1, same = record["top1"], record["agreement"]
    emulated = built / "rv32-bare" / "run"
    run = json.loads((emulated / "run.json").read_text())["agreement"]
    outputs = arrays(emulated / "outputs.npz")
    found = outputs["firmware_0"].reshape(len(network.inputs), -1).argmax(axis=1)
    right = network.labels
    if right is None:
        right = float_classes(network, onnx.load(built / "calibration" / "prepared.onnx"))
    cells = [
        network.name,
        scheme,
        len(record["samples"]),
        "yes" if record["labelled"] else "float's",
        *(f"{top1[k]:.2f}" for k in ("float32", "quantised", "firmware")),
        f"{100 * np.mean(found == right):.2f}",
        f"{same['quantised']:.1f}, {same['firmware']:.1f}",
        f"{record['outputs'][0]['quantised']['snr']:.1f}",
        f"{run['differences']} of {run['elements']}",
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--outdir", type=Path)
    parser.add_argument("--schemes", nargs="*", choices=SCHEMES, default=list(SCHEMES))
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
            for index, name in enumerate(options.schemes):
                file = folder / f"r{index}.yaml"
                file.write_text(recipe(SCHEMES[name], labelled, len(network.inputs)))
                command = [sys.executable, "-m", "doit", "build", f"recipe={file.name}"]
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
                if done.returncode:
                    print(done.stdout, done.stderr, file=sys.stderr)
                    return 1
                built = folder / "build" / file.stem
                print(row(network, name, built), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
