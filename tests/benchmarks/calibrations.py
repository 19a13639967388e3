"""Top-1 of quantized networks on samples that their calibration did not see.

    FIRMWRIGHT_MIRROR=FOLDER python -m tests.benchmarks.calibrations FOLDER [--only NETWORK …]

FOLDER is the folder of ``quantization.py``. The samples are divided into five parts. Five networks
are each calibrated on four parts and evaluated on the fifth. So every sample is evaluated once,
unseen, and the five losses show the effect of the choice of samples. Networks are QDQ graphs in
ONNX Runtime.

A class changes on a few samples only, so there are two more figures. One is the loss over ten views
of each labelled picture, with the standard error of its mean over pictures. The other is the
divergence of the quantized network's probabilities from the float network's (Kullback and Leibler),
in thousandths of a nat, as the mean over samples and views.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx

from firmwright.models.onnx import importer
from firmwright.models.onnx.export import PER_CHANNEL_OPSET
from firmwright.quantize.calibration import calibrate
from firmwright.quantize.equalization import equalize_layers
from firmwright.quantize.float_graph import evaluate, prepare
from firmwright.quantize.qdq_graph import quantize
from firmwright.recipe.quantize_keys import QuantizeOptions

from ..quantize.networks import options
from .quantization import NETWORKS, PARTS, SCHEMES, Array, Network

SMALLEST = 1 / 512
"""Half a step of an int8 probability, in place of a probability of 0."""
HEADER = (
    "| network | grids | samples | labels | float32, % | quantized, % | lost, points "
    "| lost in each part, samples | lost over ten views, points | same class as float, % "
    "| divergence |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|"
)


def views(pictures: Array) -> Array:
    """Return (views, samples, channels, height, width): pictures that keep their classes.

    The views are unchanged, mirrored, and both moved by a sixteenth of their size up, down and
    sideways.
    """
    step = pictures.shape[-1] // 16
    padded = np.pad(pictures, ((0, 0), (0, 0), (step, step), (step, step)), mode="edge")
    height, width = pictures.shape[-2:]
    corners = ((step, step), (0, step), (2 * step, step), (step, 0), (step, 2 * step))
    moved = [padded[..., y : y + height, x : x + width] for y, x in corners]
    return np.stack([*moved, *(view[..., ::-1] for view in moved)])


def unseen(network: Network, chosen: QuantizeOptions) -> tuple[Array, Array]:
    """Return log-probabilities for every view of each sample; (views, samples, classes).

    The first are the float network's, the second those of the network whose calibration did not
    use the sample.
    """
    _, interface = importer.import_model(network.model, network.name, {})
    (tensor,) = interface.inputs

    def named(values: Array) -> list[dict[str, Array]]:
        return [{tensor.name: x.reshape(tensor.shape)} for x in values]

    seen = views(network.inputs) if network.labels is not None else network.inputs[None]
    model = prepare(network.model, interface.inputs, PER_CHANNEL_OPSET)
    if chosen.equalize:
        model = equalize_layers(model)
    part = np.arange(len(network.inputs)) % PARTS
    ends_in_softmax = model.graph.node[-1].op_type == "Softmax"
    wanted = np.stack([log_probabilities(model, named(v), ends_in_softmax) for v in seen])
    found = np.empty_like(wanted)
    for left_out in range(PARTS):
        samples = named(network.inputs[part != left_out])
        quantized = quantize(model, calibrate(model, samples), chosen, samples)
        for view, values in enumerate(seen):
            found[view, part == left_out] = log_probabilities(
                quantized, named(values[part == left_out]), ends_in_softmax
            )
    return wanted, found


def log_probabilities(
    model: onnx.ModelProto, samples: Sequence[Mapping[str, Array]], ends_in_softmax: bool
) -> Array:
    """Return (samples, classes); a model that does not end in a softmax returns scores."""
    outputs = [next(iter(o.values())).reshape(-1) for o in evaluate(model, list(samples))]
    scores = np.stack(outputs).astype("float64")
    if ends_in_softmax:
        scores = np.log(np.maximum(scores, SMALLEST))
    return np.asarray(scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)))


def row(network: Network, scheme: str, chosen: QuantizeOptions) -> str:
    logs = unseen(network, chosen)
    divergence = float((np.exp(logs[0]) * (logs[0] - logs[1])).sum(axis=-1).mean())
    wanted, found = (values.argmax(axis=-1) for values in logs)
    right = wanted if network.labels is None else network.labels[None]
    lost = (wanted == right).astype(int) - (found == right).astype(int)
    of_a_picture = 100 * lost.mean(axis=0)
    deviation = of_a_picture.std(ddof=1) / np.sqrt(len(of_a_picture))
    cells = [
        network.name,
        scheme,
        wanted.shape[1],
        "float's" if network.labels is None else "yes",
        f"{100 * np.mean((wanted == right)[0]):.2f}",
        f"{100 * np.mean((found == right)[0]):.2f}",
        f"{100 * lost[0].mean():.2f}",
        ", ".join(str(lost[0, part::PARTS].sum()) for part in range(PARTS)),
        f"{of_a_picture.mean():.2f} ± {deviation:.2f}" if len(wanted) > 1 else "—",
        f"{100 * np.mean(found == wanted):.1f}",
        f"{1000 * divergence:.2f}",
    ]
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--schemes", nargs="*", choices=SCHEMES, default=list(SCHEMES))
    parser.add_argument("--only", nargs="*", choices=[n.__name__ for n in NETWORKS])
    arguments = parser.parse_args()
    print(HEADER)
    for make in NETWORKS:
        if arguments.only and make.__name__ not in arguments.only:
            continue
        network = make(arguments.folder)
        for scheme in arguments.schemes:
            chosen = options(bias_correction=True, **SCHEMES[scheme])
            print(row(network, scheme, chosen), flush=True)


if __name__ == "__main__":
    main()
