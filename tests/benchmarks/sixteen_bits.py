"""Print how far 16-bit firmware, and its reference, are from float64.

    python tests/benchmarks/sixteen_bits.py FOLDER …

A FOLDER is the folder of a build, `build/<recipe>/<platform>`, whose recipe has `quantize` with 16
bits. ONNX Runtime computes its QDQ graph in float32. Here ONNX's evaluator computes it in float64,
on the first sample of the run.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from firmwright.models.onnx.float64 import run_reference

Array = npt.NDArray[Any]


def evaluate_sample(folder: Path) -> tuple[list[Array], Mapping[str, Array]]:
    """Return the outputs of the first sample in float64, and those of both sides of all samples."""
    model = (folder.parent / "quantized" / "model.onnx").read_bytes()
    stored = np.load(folder / "run" / "sample.npz")
    names = [port.name for port in onnx.load_model_from_string(model).graph.input]
    sample = {name: stored[f"input_{i}"] for i, name in enumerate(names)}
    return run_reference(model, [sample]).outputs[0], np.load(folder / "run" / "outputs.npz")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    print("| build | values | firmware: differ | largest | ONNX Runtime: differ | largest |")
    print("|---|---|---|---|---|---|")
    for folder in parser.parse_args().folders:
        exact, outputs = evaluate_sample(folder)
        cells: list[object] = [f"{folder.parent.name} {folder.name}"]
        cells.append(sum(array.size for array in exact))
        for side in ("firmware", "reference"):
            off = [np.abs(outputs[f"{side}_{i}"][0].astype("int64") - array)
                   for i, array in enumerate(exact)]  # fmt: skip
            cells += [sum(int(np.count_nonzero(o)) for o in off), max(int(o.max()) for o in off)]
        print(f"| {' | '.join(str(c) for c in cells)} |")


if __name__ == "__main__":
    main()
