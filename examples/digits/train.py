"""Train, quantize and write the digits example: digits.onnx, inputs.npz and accuracy.json.

    python examples/digits/train.py           # writes the three files next to this script
    python examples/digits/train.py --check   # writes them elsewhere and compares the bytes

It needs firmwright's extra ``examples`` (torch, scikit-learn), and half a minute on one core.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import logging
import os
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

# Kernels that depend on the processor's features round differently, and training amplifies the
# differences. torch reads both settings when it loads; they select the common kernels.
os.environ["ATEN_CPU_CAPABILITY"] = "default"
os.environ["MKL_CBWR"] = "COMPATIBLE"

import numpy as np
import onnx
import torch
from int8_onnx import INPUT, OUTPUT, Floats, Layer, classify, float_model, grid_of, int8_model
from scans import SEED, Scans, load_split
from torch import nn

EPOCHS = 80
BATCH = 32
LEARNING_RATE = 0.01
EXAMPLE_IMAGES = 64  # the first of the test images, stored in inputs.npz
CLASSES = 10
FILES = ("digits.onnx", "inputs.npz", "accuracy.json")


@dataclass(frozen=True)
class Convolution:
    """A square convolution with the padding that keeps the size, batch norm and ReLU."""

    name: str
    inputs: int
    outputs: int
    kernel: int
    stride: int = 1
    groups: int = 1


CONVOLUTIONS = (
    Convolution("stem", 1, 8, kernel=3),
    Convolution("downsample", 8, 24, kernel=3, stride=2),
    Convolution("depthwise", 24, 24, kernel=3, groups=24),
    Convolution("pointwise", 24, 48, kernel=1),
)


def build_network() -> nn.Sequential:
    layers: list[nn.Module] = []
    for c in CONVOLUTIONS:
        layers += [
            nn.Conv2d(
                c.inputs, c.outputs, c.kernel, c.stride, c.kernel // 2, groups=c.groups, bias=False
            ),
            nn.BatchNorm2d(c.outputs),
            nn.ReLU(),
        ]
    classifier = nn.Linear(CONVOLUTIONS[-1].outputs, CLASSES)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), classifier)


def train(network: nn.Sequential, scans: Scans) -> None:
    images, labels = torch.from_numpy(scans.images), torch.from_numpy(scans.labels)
    optimizer = torch.optim.AdamW(network.parameters(), LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    network.train()
    for _ in range(EPOCHS):
        order = torch.randperm(len(labels))
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(images[batch]), labels[batch])
            torch.autograd.backward(loss)
            optimizer.step()
        schedule.step()
    network.eval()


def folded_layers(network: nn.Sequential) -> tuple[list[Layer], Layer]:
    """Fold the batch norm after a convolution, a factor and an offset per channel, into it."""
    convolutions = [m for m in network if isinstance(m, nn.Conv2d)]
    norms = [m for m in network if isinstance(m, nn.BatchNorm2d)]
    layers = []
    for c, convolution, norm in zip(CONVOLUTIONS, convolutions, norms, strict=True):
        assert norm.running_mean is not None and norm.running_var is not None
        factor = norm.weight / torch.sqrt(norm.running_var + norm.eps)
        weight = convolution.weight * factor[:, None, None, None]
        bias = norm.bias - norm.running_mean * factor
        layers.append(Layer(c.name, _array(weight), _array(bias), c.stride, c.groups))
    dense = network[-1]
    assert isinstance(dense, nn.Linear)
    return layers, Layer("dense", _array(dense.weight), _array(dense.bias))


def _array(tensor: torch.Tensor) -> Floats:
    array: Floats = tensor.detach().numpy()
    return array


def trained_model(training: Scans) -> onnx.ModelProto:
    """Return the float network after a training that results in the same weights each time."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    # oneDNN also selects kernels by processor.
    torch.backends.mkldnn.set_flags(False)  # type: ignore[no-untyped-call,unused-ignore]
    network = build_network()
    train(network, training)
    return float_model(*folded_layers(network), size=training.images.shape[-1])


def write_example(folder: Path) -> None:
    training, calibration, test = load_split()
    as_float = trained_model(training)
    as_int8 = int8_model(as_float, calibration.images)
    grids = {name: grid_of(as_int8, name) for name in (INPUT, OUTPUT)}
    test_inputs = grids[INPUT].quantize(test.images)
    correct = {
        "float": int(np.sum(classify(as_float, test.images) == test.labels)),
        "int8": int(np.sum(classify(as_int8, test_inputs) == test.labels)),
    }
    summary = {
        "seed": SEED,
        "images": {
            "training": len(training.labels),
            "calibration": len(calibration.labels),
            "test": len(test.labels),
        },
        "correct": correct,
        "accuracy": {kind: round(count / len(test.labels), 4) for kind, count in correct.items()},
        "grids": {name: asdict(grid) for name, grid in grids.items()},
    }
    labels = test.labels[:EXAMPLE_IMAGES].astype(np.uint8)
    np.savez(folder / "inputs.npz", image=test_inputs[:EXAMPLE_IMAGES], labels=labels)
    onnx.save(as_int8, folder / "digits.onnx")
    (folder / "accuracy.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description="Train and write the digits example.")
    parser.add_argument(
        "--check",
        action="store_true",
        help=("do not write files; compare a new run with the existing files"),
    )
    logging.disable(logging.WARNING)  # onnxruntime's hint to fuse layers that are fused already
    here = Path(__file__).parent
    if not parser.parse_args().check:
        write_example(here)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        write_example(Path(folder))
        differing = [f for f in FILES if not filecmp.cmp(here / f, Path(folder) / f, shallow=False)]
    for name in differing:
        print(f"{here / name}: differs from the result of this machine", file=sys.stderr)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
