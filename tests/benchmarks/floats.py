"""Time a float32 MobileNetV2 on this machine, compared with ONNX Runtime.

    python -m tests.benchmarks.floats [--rounds 101] [--toolchain gcc] [--loops]

It runs on Linux in one thread on one pinned core, as in tests/benchmarks/kernels.py. The network
has the shapes of MobileNetV2 for pictures of 224 x 224 pixels, folded batch normalizations, and
random weights. ``--loops`` uses TVM's loops instead of forms. The results of both engines are
compared first.
"""

from __future__ import annotations

import argparse
import datetime
import tempfile
from pathlib import Path
from unittest.mock import patch

import numpy as np
import onnxruntime

from firmwright.devices.cpu import CpuTarget, lowering
from firmwright.devices.cpu.all_forms import FORMS
from firmwright.project.write import write_project
from firmwright.toolchain import Build, load_platform, load_toolchain
from tests.benchmarks.kernels import Generated, make_library, measure, name_processor, time_row
from tests.networks.firmware import lowered
from tests.networks.mobilenet import SIZE, make_mobilenet_v2

CLASSES = 1000


def compile_model(model: bytes, folder: Path, toolchain: str, loops: bool) -> Generated:
    """Compile the network's C to a shared library and load it."""
    forms = () if loops else FORMS
    rewrites = () if loops else CpuTarget.rewrites
    with patch.object(lowering, "FORMS", forms), patch.object(CpuTarget, "rewrites", rewrites):
        network = lowered(model)
    build = Build(load_toolchain(toolchain), load_platform("host"))
    write_project(network, build, folder / "host" / "sources")
    library = make_library(folder, toolchain)
    return Generated(library, ((1, 3, SIZE, SIZE), (1, CLASSES)), "float32")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--toolchain", default="zig")
    parser.add_argument("--loops", action="store_true")
    parser.add_argument("--outdir", type=Path, default=Path(tempfile.mkdtemp()))
    options = parser.parse_args()
    model = make_mobilenet_v2(CLASSES)
    ours = compile_model(model, options.outdir.resolve(), options.toolchain, options.loops)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, settings, ["CPUExecutionProvider"])
    ours.input[...] = np.random.default_rng(0).standard_normal(ours.input.shape)
    ours()
    (theirs,) = session.run(None, {"input": ours.input})
    today = datetime.datetime.now(datetime.UTC).date()
    distance = np.abs(ours.output - theirs).max()
    print(
        f"{today}, {name_processor()}, {options.toolchain}, {options.rounds} rounds; "
        f"largest result {np.abs(theirs).max():.3g}, largest difference {distance:.2g}.\n\n"
        "| network | firmwright, µs: least (median) | ONNX Runtime | ratio | half of all |\n"
        "|---|---|---|---|---|"
    )
    pairs = measure(ours, lambda: session.run(None, {"input": ours.input}), options.rounds)
    print(time_row("MobileNetV2", pairs))


if __name__ == "__main__":
    main()
