"""Top-1 of networks in shift arithmetic, next to the float networks and the original DIANA flow.

    FIRMWRIGHT_MIRROR=FOLDER python -m tests.benchmarks.shift_accuracy FOLDER

FOLDER is the folder of ``quantization.py``. TVM's virtual machine evaluates the definition of the
network, a module of integers; tests show that firmware computes the same bits. Every fifth sample
is for calibration, and all samples are evaluated.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import tvm

from firmwright.data.arrays import quantize_array
from firmwright.models.onnx import importer
from firmwright.models.onnx.export import PER_CHANNEL_OPSET
from firmwright.models.relax import importer as relax
from firmwright.quantize.calibration import calibrate
from firmwright.quantize.equalization import equalize_layers
from firmwright.quantize.float_graph import prepare
from firmwright.quantize.integer_io import remove_float_io
from firmwright.quantize.qdq_graph import quantize
from firmwright.quantize.shift_arithmetic import make_shift_network
from firmwright.recipe.quantize_keys import QuantizeOptions

from ..quantize.networks import options
from .quantization import Network, arrays, classes, ds_cnn, mobilenet, resnet8, resnet8_diana

Classes = npt.NDArray[Any]
Samples = list[dict[str, npt.NDArray[Any]]]
RECORDED = {resnet8_diana: "resnet8", ds_cnn: "dscnn"}
"""Networks with recorded inputs and outputs of the original flow."""
HEADER = (
    "| network | samples | labels | float32, % | affine int8, % | shifts, % "
    "| shifts, equalized, % | same class as float (affine, shifts), % | original flow, % |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


SHIFTING = options(
    scheme="pow2",
    arithmetic="shift",
    per_channel=False,
    bias_correction=True,
    calibration={"method": "mse"},
)


def fake_quantized(model: onnx.ModelProto, samples: Samples, chosen: QuantizeOptions) -> Any:
    seen = samples[::5]
    return quantize(model, calibrate(model, seen), chosen, seen)


def shifted_classes(model: onnx.ModelProto, samples: Samples) -> Classes:
    """Return the classes from the module of integers."""
    quantized = fake_quantized(model, samples, SHIFTING)
    remove_float_io(quantized)
    module, interface = importer.import_model(quantized.SerializeToString(), "network", {})
    module, interface = make_shift_network(module, interface)
    (tensor,) = interface.inputs
    given = [{tensor.name: quantize_array(s[tensor.name], tensor)} for s in samples]
    found = relax.run_reference(tvm.ir.save_json(module).encode(), given).outputs
    return np.array([outputs[0].argmax() for outputs in found])


def row(network: Network, recorded: Classes | None) -> str:
    _, interface = importer.import_model(network.model, network.name, {})
    (tensor,) = interface.inputs
    samples = [{tensor.name: x.reshape(tensor.shape)} for x in network.inputs]
    model = prepare(network.model, interface.inputs, PER_CHANNEL_OPSET)
    float32 = classes(model, samples)
    affine = classes(fake_quantized(model, samples, options(bias_correction=True)), samples)
    shifts = shifted_classes(model, samples)
    right = float32 if network.labels is None else network.labels

    def rate(found: Classes, wanted: Classes = right) -> str:
        return f"{100 * float(np.mean(found == wanted)):.2f}"

    cells = [
        network.name,
        str(len(samples)),
        "float's" if network.labels is None else "yes",
        *(rate(found) for found in (float32, affine, shifts)),
        rate(shifted_classes(equalize_layers(model), samples)),
        f"{rate(affine, float32)}, {rate(shifts, float32)}",
        "—" if recorded is None else rate(recorded),
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    print(HEADER)
    for make in (resnet8, resnet8_diana, ds_cnn, mobilenet):
        recorded = None
        if make in RECORDED:
            file = folder / "diana" / f"{RECORDED[make]}_expected_outputs.npz"
            recorded = arrays(file)["data"].argmax(axis=1)
        print(row(make(folder), recorded), flush=True)


if __name__ == "__main__":
    main()
