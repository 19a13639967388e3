"""Time TFLite networks with one input on this machine next to LiteRT with XNNPACK.

    python -m tests.benchmarks.host [--rounds 101] FILE.tflite …

Both engines use one thread on one pinned core, in turn and in a random order. Before that, the
results must equal LiteRT's reference kernels on 20 random inputs.
"""

from __future__ import annotations

import argparse
import datetime
import subprocess
import sys
import tempfile
from pathlib import Path

from ai_edge_litert.interpreter import OpResolverType

from tests.benchmarks.kernels import (
    Generated,
    Reference,
    check,
    make_library,
    measure,
    name_processor,
    time_row,
)

RECIPE = "name: {name}\nmodel: {model}\nplatform: host\n"


def build_host(model: Path, folder: Path) -> Path:
    """Build a network for this machine; return the folder with its stages."""
    recipe = folder / f"{model.stem}.yaml"
    recipe.write_text(RECIPE.format(name=model.stem, model=model.resolve()))
    command = [sys.executable, "-m", "firmwright", "build", recipe.name, "--samples", "1"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return folder / "build" / model.stem


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=101)
    options = parser.parse_args()
    today = datetime.datetime.now(datetime.UTC).date()
    print(f"{today}, {name_processor()}, {options.rounds} rounds.\n")
    print("| network | firmwright, µs: least (median) | LiteRT + XNNPACK | ratio | half of all |\n"
          "|---|---|---|---|---|")  # fmt: skip
    for model in options.models:
        with tempfile.TemporaryDirectory() as temporary:
            outdir = build_host(model, Path(temporary))
            details = Reference(model, OpResolverType.BUILTIN_REF)
            shapes = details.input["shape"], details.output["shape"]
            dtype = details.input["dtype"].__name__
            ours = Generated(make_library(outdir, "zig"), shapes, dtype)
            check(ours, model)
            theirs = Reference(model, OpResolverType.AUTO)
            theirs.set_input(ours.input)
            print(time_row(model.stem, measure(ours, theirs, options.rounds)), flush=True)


if __name__ == "__main__":
    main()
