"""Compiles, runs and checks all pairs of fused operators, in all float types.

``python -m tests.hammer.pairs`` tries all pairs; arguments name producers and types.
"""

from __future__ import annotations

import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from firmwright.errors import UserError
from firmwright.models import FORMATS
from firmwright.toolchain import Build, load_platform, load_toolchain
from firmwright.verify.protocol import decode_outputs
from tests.hammer.pair_models import CONSUMERS, PRODUCERS, make_model
from tests.networks.firmware import executed, link_network, lowered

WARNINGS = {
    "gcc": ("-Wconversion", "-Wunused", "-Wmaybe-uninitialized"),
    "clang": ("-Wconversion", "-Wunused", "-Wuninitialized"),
}
"""Flags in addition to the toolchains' flags, which contain -Wall, -Wextra and -Werror."""

TOLERANCE = {"float16": 2.0**-7, "float32": 2.0**-16, "float64": 2.0**-19}
"""Maximum difference by type, as a part of the largest result.

The weights of a cubic Resize are those of ONNX Runtime, which computes them in float32.
"""


def try_pairs(name: str, kind: str, consumers: Sequence[str], folder: Path) -> Iterator[str]:
    """Yield the outcome of each pair: ``right``, ``undefined``, ``rejected``, or the error.

    ONNX does not define some operators for a type. If a network of several pairs is rejected,
    each pair gets a separate network.
    """
    defined = [consumer for consumer in consumers if is_defined(name, consumer, kind)]
    yield from ["undefined"] * (len(consumers) - len(defined))
    if not defined:
        return
    try:
        yield from run_pairs(make_model(PRODUCERS[name], defined, kind), kind, defined, folder)
    except UserError as error:
        if len(defined) == 1:
            yield "rejected" if not is_compiler_error(error) else f"{defined[0]}: {error}"
            return
        for number, consumer in enumerate(defined):
            yield from try_pairs(name, kind, [consumer], folder / str(number))
    except Exception:
        yield f"{', '.join(defined)}: {traceback.format_exc()}"


def is_defined(name: str, consumer: str, kind: str) -> bool:
    try:
        make_model(PRODUCERS[name], [consumer], kind)
    except onnx.shape_inference.InferenceError:
        return False
    return True


def is_compiler_error(error: UserError) -> bool:
    return "compiler" in str(error)


def run_pairs(data: bytes, kind: str, consumers: Sequence[str], folder: Path) -> list[str]:
    """Return the outcome of each pair of a network, compiled by gcc and clang, run by gcc."""
    generator = np.random.default_rng(0)
    model = onnx.load_from_string(data)
    sample = {
        tensor.name: generator.normal(
            0, 1, [d.dim_value for d in tensor.type.tensor_type.shape.dim]
        ).astype(kind)
        for tensor in model.graph.input
    }
    network = lowered(data)
    builds = {
        compiler: replace(Build(load_toolchain(compiler), load_platform("host")), cflags=flags)
        for compiler, flags in WARNINGS.items()
    }
    link_network(network, builds["clang"], folder / "clang", folder / "cache")
    ran = executed(network, [sample], folder / "gcc", WARNINGS["gcc"])
    found = decode_outputs(ran.console, network.interface.outputs, 1, ran.exit_code)[0]
    expected = FORMATS["onnx"].load().run_reference(data, [sample]).outputs[0]
    pairs = zip(consumers, found, expected, strict=True)
    return [compare(ours, theirs, consumer, kind) for consumer, ours, theirs in pairs]


def compare(ours: npt.NDArray[Any], theirs: npt.NDArray[Any], consumer: str, kind: str) -> str:
    """Return ``right`` if two results agree; integers may differ by their rounding."""
    if ours.dtype.kind in "iu":
        largest = np.abs(ours.astype("int64") - theirs.astype("int64")).max(initial=0)
        return "right" if largest <= 1 else f"{consumer}: differs by {largest}"
    limit = TOLERANCE[kind] * max(1.0, float(np.nanmax(np.abs(theirs), initial=0)))
    if np.allclose(ours, theirs, rtol=0, atol=limit, equal_nan=True):
        return "right"
    return f"{consumer}: differs by {np.nanmax(np.abs(ours - theirs))}"


def main(arguments: Sequence[str]) -> int:
    """Try all pairs of the named producers and types; return 1 if one is wrong."""
    unknown = [name for name in arguments if name not in (*PRODUCERS, *TOLERANCE)]
    if unknown:
        known = ", ".join((*TOLERANCE, *PRODUCERS))
        print(f"unknown argument '{unknown[0]}'; expected names of types and producers: {known}")
        return 2
    producers = [name for name in PRODUCERS if name in arguments] or list(PRODUCERS)
    kinds = [kind for kind in TOLERANCE if kind in arguments] or list(TOLERANCE)
    began, outcomes = time.monotonic(), Counter[str]()
    for name in producers:
        for kind in kinds:
            with tempfile.TemporaryDirectory() as folder:
                for outcome in try_pairs(name, kind, list(CONSUMERS), Path(folder)):
                    is_plain = outcome in ("right", "undefined", "rejected")
                    outcomes[outcome if is_plain else "findings"] += 1
                    if not is_plain:
                        print(f"{name}, {kind}, {outcome}", flush=True)
    message = ", ".join(f"{times:,} {outcome}" for outcome, times in outcomes.most_common())
    print(f"{outcomes.total():,} pairs in {time.monotonic() - began:.0f} s: {message}")
    return int("findings" in outcomes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
