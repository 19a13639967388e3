"""Tell how far firmware of 16 bits, and the reference that judges it, are from float64.

    python tests/benchmarks/sixteen_bits.py FOLDER …

A FOLDER is a build's, `build/<recipe>/<platform>`, of a recipe with `quantize` of 16 bits. ONNX
Runtime computes its QDQ graph in float32; here ONNX's own evaluator does so in float64, on the
first sample of the run.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator


def in_float64(path: Path, opset: int = 0) -> onnx.ModelProto:
    """Load a QDQ graph with its scales and float constants widened, in an operator set if given."""
    model = onnx.load(path)
    if opset:
        model = onnx.version_converter.convert_version(model, opset)
    for tensor in model.graph.initializer:
        widen(tensor)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                widen(attribute.t)
    return model


def widen(tensor: onnx.TensorProto) -> None:
    if tensor.data_type == onnx.TensorProto.FLOAT:
        wide = numpy_helper.to_array(tensor).astype("float64")
        tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    print("| build | values | firmware: differ | largest | ONNX Runtime: differ | largest |")
    print("|---|---|---|---|---|---|")
    for folder in parser.parse_args().folders:
        model = in_float64(folder.parent / "quantized" / "model.onnx")
        run = folder / "run"
        sample, outputs = np.load(run / "sample.npz"), np.load(run / "outputs.npz")
        inputs = {port.name: sample[f"input_{i}"] for i, port in enumerate(model.graph.input)}
        cells: list[object] = [f"{folder.parent.name} {folder.name}"]
        exact = [np.asarray(value) for value in ReferenceEvaluator(model).run(None, inputs)]
        cells.append(sum(array.size for array in exact))
        for side in ("firmware", "reference"):
            off = [np.abs(outputs[f"{side}_{i}"][0].astype("int64") - array)
                   for i, array in enumerate(exact)]  # fmt: skip
            cells += [sum(int(np.count_nonzero(o)) for o in off), max(int(o.max()) for o in off)]
        print(f"| {' | '.join(str(c) for c in cells)} |")


if __name__ == "__main__":
    main()
