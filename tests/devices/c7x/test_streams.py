"""Streams: which tensors use one, the C that reads them, their counts, and detected errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

from firmwright.devices.c7x.streams import merge_dimensions
from firmwright.emulator.execution import EXIT_TRAP, Execution
from firmwright.models.relax.importer import run_reference
from firmwright.project.network import Network
from firmwright.verify.protocol import decode_counts, decode_outputs
from tests.networks.firmware import SANITIZED, executed, lowered

from .graphs import Formula, network, numbers, samples
from .test_emulation import replacing

op = relax.op
pytestmark = pytest.mark.needs("gcc")

SHAPES: dict[tuple[int, ...], tuple[int, ...]] = {
    (16,): (16,),  # a single vector
    (1, 8, 8, 8): (1, 8, 8, 8),
    (3, 5, 32): (32,),  # two vectors, repeated
    (3, 4, 2, 16): (3, 1, 2, 16),  # one image for all channels of its batch
    (1, 56, 56, 64): (64,),  # together with blocks that the DMA moves
}
"""The input's shape and the constant's."""
VECTORS = 2 * (2 * 1 + 2 * 32 + 2 * 30 + 2 * 24 + 56 * 56 * 4)
"""Vectors that the streams deliver for two samples."""
FORMULA: Formula = lambda x, constant: op.subtract(op.multiply(x, constant), x)  # noqa: E731
SMALL = (1, 8, 8, 8)
SUM = network({SMALL: (op.add, numbers(1, *SMALL))})
SOURCE = "network/network_region_000_add.c"
ROWS = (2, 4, 64)


def ran(
    data: bytes,
    shapes: list[tuple[int, ...]],
    folder: Path,
    edit: Callable[[Path], None] = lambda _: None,
) -> tuple[Network, Execution]:
    made = lowered(data, "relax", target="c7x")
    return made, executed(made, samples(shapes), folder, SANITIZED, edit)


def assert_exact(
    data: bytes, shapes: list[tuple[int, ...]], made: Network, execution: Execution
) -> None:
    found = decode_outputs(execution.console, made.interface.outputs, 2, execution.exit_code)
    expected = run_reference(data, samples(shapes)).outputs
    for ours, theirs in zip(found, expected, strict=True):
        for array, reference in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(array, reference)


def test_streams_deliver_what_the_reference_reads(tmp_path: Path) -> None:
    data = network({s: (FORMULA, numbers(1, *c)) for s, c in SHAPES.items()})
    made, execution = ran(data, list(SHAPES), tmp_path)
    assert_exact(data, list(SHAPES), made, execution)
    counts = decode_counts(execution.console)
    assert (counts["stream_vectors"], counts["stream_bytes"]) == (VECTORS, 64 * VECTORS)


def of_bytes(shape: tuple[int, ...], formula: Callable[[relax.Expr], relax.Expr]) -> bytes:
    """Return a module that applies a function to an int8 input ``x``."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, "int8"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(builder.normalize(formula(x)))
        builder.emit_func_output(result)
    return str(tvm.ir.save_json(builder.get())).encode()


def test_bytes_come_by_64(tmp_path: Path) -> None:
    shape = (2, 96)
    constant, *given = np.random.default_rng(3).integers(-128, 128, (3, *shape), "int8")
    data = of_bytes(shape, lambda x: op.maximum(x, relax.const(constant)))
    made = lowered(data, "relax", target="c7x")
    execution = executed(made, [{"x": g} for g in given], tmp_path, SANITIZED)
    found = decode_outputs(execution.console, made.interface.outputs, 2, execution.exit_code)
    np.testing.assert_array_equal([f[0] for f in found], [np.maximum(g, constant) for g in given])
    assert decode_counts(execution.console)["stream_vectors"] == 2 * 2 * 3


def sum_of_four(x: relax.Expr, constant: relax.Expr) -> relax.Expr:
    for seed in range(2, 4):
        x = op.add(x, relax.const(numbers(seed, *ROWS)))
    return op.add(x, constant)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (network({ROWS: (sum_of_four, numbers(1, *ROWS))}), "2 of 4 inputs; others: beyond 2"),
        (network({ROWS: (op.add, numbers(1, 2, 4, 1))}), "1 of 2 inputs; others: not adjacent"),
        (
            of_bytes(ROWS, lambda x: op.add(op.astype(x, "float32"), relax.const(numbers(1, 64)))),
            "1 of 2 inputs; others: not 64 bytes per vector (1).",
        ),
    ],
    ids=["engines", "broadcast", "narrow"],
)
def test_who_gets_no_stream_is_said(data: bytes, said: str) -> None:
    (kernel,) = lowered(data, "relax", target="c7x").kernels.kernels
    assert kernel.note is not None
    assert f"one vector. Streams deliver {said}" in kernel.note


def test_dimensions_that_go_on_are_one() -> None:
    assert merge_dimensions([(3, 128), (4, 0), (1, 7), (2, 64)]) == [(3, 128), (4, 0), (2, 64)]
    assert merge_dimensions([(3, 512), (4, 128), (2, 64)]) == [(24, 64)]
    assert merge_dimensions([(3, 0), (4, 0)]) == [(12, 0)]
    assert merge_dimensions([(1, 0)]) == [(1, 64)]


@pytest.mark.parametrize(
    ("pattern", "by", "message"),
    [
        (r"stream_open\(1,", "stream_open(2,", "fw_stream_open: there is no such stream (2)"),
        (r"stream_open\(1,", "stream_open(0,", "fw_stream_open: the stream is open already (0)"),
        (r"\{32, 64\}", "{0, 64}", "fw_stream_open: the pattern has no vector (0)"),
        (r"\], 1\);", "], 6);", "fw_stream_open: the pattern has no dimension, or too many (0)"),
        (r"stream_close\(1", "stream_close(0", "fw_stream_close: the stream is not open (0)"),
        (r"\{32, 64\}", "{31, 64}", "fw_stream_next: the pattern has no more vectors (0)"),
        (r" fw_stream_close\(1\);", "", "fw_stream_check_closed: a stream was left open (1)"),
        (
            r"fw_stream_close\(0\);",
            "*(float *)(uintptr_t)input += 1.0f; fw_stream_close(0);",
            "fw_stream_close: what the stream reads was written while it was open (0)",
        ),
    ],
    ids=["third", "twice", "empty", "dimensions", "closed", "end", "open", "written"],
)
def test_what_an_engine_could_not_do_ends_the_program(
    pattern: str, by: str, message: str, tmp_path: Path
) -> None:
    _, execution = ran(SUM, [SMALL], tmp_path, replacing(SOURCE, pattern, by))
    assert execution.exit_code == EXIT_TRAP
    assert message in execution.console.decode()


def test_what_is_read_before_the_first_vector_is_nonsense(tmp_path: Path) -> None:
    early = replacing(SOURCE, r" fw_stream_next\(0\);", "")
    made, execution = ran(SUM, [SMALL], tmp_path, early)
    with pytest.raises(AssertionError):
        assert_exact(SUM, [SMALL], made, execution)
