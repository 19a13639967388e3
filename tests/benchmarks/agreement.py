"""Tabulate how far compiled ONNX networks are from ONNX Runtime, in steps of the last integers.

    FIRMWRIGHT_MIRROR=… python -m tests.benchmarks.agreement

Each network is cut at its last integer tensor, before a float softmax. A QDQ network is compiled in
both roundings. It is compared with ONNX Runtime without optimizations (the graph as written) and
with them (the default: QLinearConv and similar operators). ONNX Runtime rejects two of the integer
networks; for these, ONNX's evaluator is the reference.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import TensorProto, helper

from firmwright.models.onnx import importer as onnx_model
from tests.networks.firmware import run_generated

MIRROR = Path(os.environ.get("FIRMWRIGHT_MIRROR", "."))
COUNT = 200
Array = npt.NDArray[Any]
HEADER = (
    "| network | inputs | rounding | judged by | values that differ | largest difference "
    "| equal top-1 |\n|---|---|---|---|---|---|---|"
)


def pictures() -> list[Array]:
    with np.load(MIRROR / "ic_160.npz") as archive:
        return [p[None].astype("float32") for p in archive["images_u8"]]


def keywords() -> list[Array]:
    """Features with the quantization of kws_ref_model.tflite: scale 0.58470291, zero point 83."""
    with np.load(MIRROR / "kws_200.npz") as archive:
        stored = archive["mfcc_i8"].astype("float32")
    return [(k.reshape(1, 490) - 83) * np.float32(0.5847029) for k in stored]


def random_integers(shape: tuple[int, ...], dtype: str) -> Callable[[], list[Array]]:
    def samples() -> list[Array]:
        random = np.random.default_rng(1)
        return [random.integers(0, 255, shape, endpoint=True).astype(dtype) for _ in range(COUNT)]

    return samples


@dataclass(frozen=True)
class Network:
    """A file of the mirror; ``classes`` states whether its largest output is the answer."""

    file: str
    inputs: str
    samples: Callable[[], list[Array]]
    classes: bool = True


NETWORKS = (
    Network("resnet8_qdq", "160 pictures", pictures),
    Network("kws_qdq", "200 keywords", keywords),
    Network(
        "int_anomaly_detection", "200 random", random_integers((1, 640), "float32"), classes=False
    ),
    Network("int_keyword_spotting", "200 random", random_integers((1, 1, 49, 10), "uint8")),
    Network("int_dscnn_nemo", "200 random", random_integers((1, 1, 49, 10), "float32")),
)


def main() -> None:
    print(HEADER)
    for network in NETWORKS:
        model = cut(onnx.load(MIRROR / f"{network.file}.onnx"))
        data = model.SerializeToString()
        name = onnx_model.import_model(data, network.file, {})[1].inputs[0].name
        samples = [{name: array} for array in network.samples()]
        quantized = any(n.op_type == "QuantizeLinear" for n in model.graph.node)
        reference = onnx_model.run_reference(data, samples)
        judges = {reference.runtime: [outputs[0] for outputs in reference.outputs]}
        if quantized:
            judges["onnxruntime, default optimizations"] = optimized(data, samples)
        for rounding in ("onnx", "tflite") if quantized else ("onnx",):
            with tempfile.TemporaryDirectory() as folder:
                found = run_generated(data, samples, Path(folder), (), "onnx", rounding)
            for judge, expected in judges.items():
                stated = rounding if quantized else "—"
                cells = difference([f[0] for f in found], expected, network.classes)
                print(f"| {network.file} | {network.inputs} | {stated} | {judge} | {cells} |")


def cut(model: onnx.ModelProto) -> onnx.ModelProto:
    """Make the tensor before a last float softmax the output: the last quantized one, if any."""
    makers = {o: n for n in model.graph.node for o in n.output}
    last = makers[model.graph.output[0].name]
    if last.op_type not in ("Softmax", "LogSoftmax"):
        return model
    source = makers[last.input[0]]
    dequantized = source.op_type == "DequantizeLinear"
    name = source.input[0] if dequantized else last.input[0]
    dtype = TensorProto.INT8 if dequantized else TensorProto.FLOAT
    shape = [d.dim_value for d in model.graph.output[0].type.tensor_type.shape.dim]
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info(name, dtype, shape))
    return onnx.utils.Extractor(model).extract_model(
        [
            i.name
            for i in model.graph.input
            if i.name not in {c.name for c in model.graph.initializer}
        ],
        [name],
    )


def optimized(data: bytes, samples: list[dict[str, Array]]) -> list[Array]:
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    return [np.asarray(session.run(None, sample)[0]) for sample in samples]


def difference(found: list[Array], expected: list[Array], classes: bool) -> str:
    """Return cells: differing values of all, the largest difference, samples of equal top-1."""
    ours, theirs = (np.stack(a).astype("float64").reshape(len(a), -1) for a in (found, expected))
    apart = np.abs(ours - theirs)
    equal = int((ours.argmax(axis=1) == theirs.argmax(axis=1)).sum())
    top = f"{equal} of {len(ours)}" if classes else "—"
    return f"{int((apart > 0).sum())} of {apart.size} | {apart.max():g} | {top}"


if __name__ == "__main__":
    main()
