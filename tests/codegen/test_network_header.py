"""The statements of the network's header about a batch."""

from __future__ import annotations

from types import SimpleNamespace

from firmwright.codegen.templates import make_environment, render
from firmwright.ir.tensors import BatchLayout, Tensor
from firmwright.project.write import name_ports

INPUTS = (Tensor("x", (3, 7), "int8", 0.5, 1),)
OUTPUTS = (
    Tensor("classes", (3, 10), "float32"),
    Tensor("rows", (2, 12), "float32"),
    Tensor("anchors", (5, 4), "float32"),
)


def header(batch: BatchLayout | None) -> str:
    network = SimpleNamespace(
        name="three",
        interface=SimpleNamespace(format="onnx", sha256="0" * 64),
        partition=SimpleNamespace(macs=1),
        plan=SimpleNamespace(arena_bytes=16),
        batch=batch,
        class_names=(),
    )
    variables = {
        "network": network,
        "prefix": "network",
        "inputs": name_ports(INPUTS, {}),
        "outputs": name_ports(OUTPUTS, {}),
        "detector": None,
        "arena_memories": {},
        "states": [],
        "caller_arena": False,
        "hooks": False,
        "selftest": False,
        "build_id": "0" * 40,
    }
    return render(make_environment(), "network/network.h.j2", variables)


def test_it_tells_where_the_samples_of_a_batch_lie() -> None:
    text = header(BatchLayout(3, (0, 1, None)))
    assert "#define NETWORK_BATCH_SIZE 3\n" in text
    assert "/* x: int8 3x7, real value = 0.5 * (q - 1) */" in text
    assert "/* classes: float32 3x10; sample by sample along axis 0 */" in text
    assert "/* rows: float32 2x12; sample by sample along axis 1, 4 of it each */" in text
    assert "/* anchors: float32 5x4; the same for all samples */" in text


def test_it_says_nothing_of_a_batch_that_is_not_asked_for() -> None:
    text = header(None)
    assert "BATCH" not in text
    assert "/* classes: float32 3x10 */" in text
