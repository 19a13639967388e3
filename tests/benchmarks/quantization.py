"""Quantize float networks with both schemes; tabulate the loss on real inputs.

    python tests/benchmarks/quantization.py FOLDER [--only NETWORK …] [--schemes SCHEME …]

FOLDER contains resnet8_float.onnx, vww_96_float.onnx, ic_160.npz, and in ``diana/`` inputs of the
networks of examples/diana/trained, which find their weights through FIRMWRIGHT_MIRROR. The samples
are divided into five parts. Five networks are each calibrated on four parts and evaluated on the
fifth. So every sample is evaluated once, unseen, and runs once in the emulated firmware.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import tvm
import yaml

from firmwright.custom.code import load_custom_function
from firmwright.models.onnx.float_export import export_onnx
from firmwright.models.relax import importer as relax
from firmwright.quantize.float_graph import evaluate
from firmwright.transforms import canonicalize

ROOT = Path(__file__).parents[2]
Array = npt.NDArray[Any]
PARTS = 5
MSE = {"calibration": {"method": "mse"}}
SCHEMES: dict[str, dict[str, Any]] = {
    "affine": {},
    "affine, mse": MSE,
    "affine, compensated": {"compensate_rounding": True},
    "affine, equalized": {"equalize": True},
    "pow2": {"scheme": "pow2", **MSE},
    "pow2, compensated": {"scheme": "pow2", "compensate_rounding": True, **MSE},
    "pow2, equalized": {"scheme": "pow2", "equalize": True, **MSE},
}
"""The keys of `quantize` in a recipe; the defaults are affine scales and, for those, minmax."""
HEADER = (
    "| network | grids | samples | labels | float32, % | quantized, % | firmware, % "
    "| firmware in the emulator, % | lost, points | same class as float (quantized, firmware), % "
    "| SNR, dB | values that differ in the emulator |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True)
class Network:
    """A float model, real inputs by sample, and the right classes if they are known."""

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
    """Return the network of a function of examples/diana/trained as ONNX."""
    with load_custom_function(f"networks:{function}", ROOT / "examples/diana/trained") as make:
        made = make()
    if isinstance(made, np.ndarray):
        return made
    module, interface = relax.import_model(tvm.ir.save_json(made).encode(), function, {})
    return export_onnx(canonicalize(module), interface)


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
    stated = SCHEMES[scheme]
    calibration = {"inputs": "calibration.npy", **stated.get("calibration", {})}
    evaluate = {"inputs": "inputs.npy", **({"labels": "labels.npy"} if labels else {})}
    content = {
        "model": "model.onnx",
        "platform": "rv32-bare",
        "quantize": {**stated, "calibration": calibration},
        "evaluate": evaluate,
        "run": {"samples": samples, "tolerance": {"absolute": 32}},
    }
    return yaml.safe_dump(content)


def classes(model: onnx.ModelProto, samples: Sequence[Mapping[str, Array]]) -> Array:
    """Return the class that the model's first output states for each sample."""
    return np.array([next(iter(o.values())).argmax() for o in evaluate(model, list(samples))])


def float_classes(network: Network, model: onnx.ModelProto) -> Array:
    (given,) = model.graph.input
    shape = [d.dim_value for d in given.type.tensor_type.shape.dim]
    return classes(model, [{given.name: x.reshape(shape)} for x in network.inputs])


@dataclass(frozen=True)
class Judged:
    """One part of the samples, evaluated by networks that were calibrated on other samples.

    The rates are in per cent. The first four count the labels (or without labels the float
    network's classes) that the float network, the QDQ graph, the C on the host and the emulated
    firmware hit. The other two count the float network's classes in the results of the QDQ graph
    and of the C. ``snr`` is the QDQ graph's, in dB; ``differences`` are the firmware's values that
    differ from the QDQ graph's.
    """

    hit: tuple[float, float, float, float]
    same: tuple[float, float]
    snr: float
    differences: int
    values: int


def judged(network: Network, built: Path) -> Judged:
    record = json.loads((built / "accuracy" / "accuracy.json").read_text())
    emulated = built / "rv32-bare" / "run"
    run = json.loads((emulated / "run.json").read_text())
    outputs = arrays(emulated / "outputs.npz")
    found = outputs["firmware_0"].reshape(len(network.inputs), -1).argmax(axis=1)
    right = network.labels
    if right is None:
        right = float_classes(network, onnx.load(built / "calibration" / "prepared.onnx"))
    float32, quantized, firmware = (record["top1"][k] for k in ("float32", "quantized", "firmware"))
    return Judged(
        (float32, quantized, firmware, 100 * float(np.mean(found == right))),
        (record["agreement"]["quantized"], record["agreement"]["firmware"]),
        record["outputs"][0]["signals"]["quantized"]["snr"],
        run["differences"],
        run["values"],
    )


def row(network: Network, scheme: str, parts: Sequence[Judged]) -> str:
    """Return a row of the table; the parts have equal numbers of samples."""
    hit, same = (np.mean([getattr(p, name) for p in parts], axis=0) for name in ("hit", "same"))
    cells = [
        network.name,
        scheme,
        len(network.inputs),
        "float's" if network.labels is None else "yes",
        *(f"{rate:.2f}" for rate in hit),
        f"{hit[0] - hit[3]:.2f}",
        ", ".join(f"{rate:.1f}" for rate in same),
        f"{np.mean([p.snr for p in parts]):.1f}",
        f"{sum(p.differences for p in parts)} of {sum(p.values for p in parts)}",
    ]
    return f"| {' | '.join(map(str, cells))} |"


def build(network: Network, scheme: str, part: int, folder: Path) -> Judged:
    """Build the network in ``folder``, calibrated without one part, and evaluate that part."""
    unseen = np.arange(len(network.inputs)) % PARTS == part
    labels = None if network.labels is None else network.labels[unseen]
    judging = replace(network, inputs=network.inputs[unseen], labels=labels)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dodo.py").write_text("from firmwright.tasks.dodo import *\n")
    (folder / "model.onnx").write_bytes(network.model)
    np.save(folder / "inputs.npy", judging.inputs)
    np.save(folder / "calibration.npy", network.inputs[~unseen])
    if labels is not None:
        np.save(folder / "labels.npy", labels)
    text = recipe(scheme, labels is not None, len(judging.inputs))
    (folder / "recipe.yaml").write_text(text)
    command = [sys.executable, "-m", "doit", "build", "recipe=recipe.yaml"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return judged(judging, folder / "build" / "recipe")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--outdir", type=Path)
    parser.add_argument("--schemes", nargs="*", choices=SCHEMES, default=list(SCHEMES))
    parser.add_argument("--only", nargs="*", choices=[n.__name__ for n in NETWORKS])
    options = parser.parse_args()
    print(HEADER)
    with tempfile.TemporaryDirectory() as scratch:
        root = options.outdir or Path(scratch)
        for make in NETWORKS:
            if options.only and make.__name__ not in options.only:
                continue
            network = make(options.folder)
            for index, scheme in enumerate(options.schemes):
                folder = root / f"{make.__name__}-{index}"
                parts = [build(network, scheme, p, folder / str(p)) for p in range(PARTS)]
                print(row(network, scheme, parts), flush=True)


if __name__ == "__main__":
    main()
