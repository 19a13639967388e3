"""Repeated calls become loops, with the same results, counts and calls."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firmwright.models.onnx.importer import run_reference
from firmwright.planning.arena import Buffer
from firmwright.planning.loops import Call, Loop, find_loops, fold_loops, keep_small_loops
from firmwright.verify.protocol import decode_outputs
from tests.networks.firmware import SANITIZED, executed, lowered
from tests.networks.onnx_models import graph, node, value

INPUTS, HIDDEN = 4, 8


def make_layer(kind: str, gates: int, steps: int, batch: int = 1, **attributes: Any) -> bytes:
    """Return a recurrent layer whose outputs are the sequence and the last state."""
    random = np.random.default_rng(0)
    ways = 1 + (attributes.get("direction") == "bidirectional")
    shapes = {
        "w": (ways, gates * HIDDEN, INPUTS),
        "r": (ways, gates * HIDDEN, HIDDEN),
        "b": (ways, 2 * gates * HIDDEN),
    }
    constants = {n: random.normal(0, 0.4, s).astype("float32") for n, s in shapes.items()}
    layer = node(kind, ["x", "w", "r", "b"], ["y", "last"], hidden_size=HIDDEN, **attributes)
    outputs = [value("y", [steps, ways, batch, HIDDEN]), value("last", [ways, batch, HIDDEN])]
    model = graph([layer], [value("x", [steps, batch, INPUTS])], outputs, constants, 17)
    return bytes(model.SerializeToString())


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    ("kind", "gates", "attributes"),
    [
        ("LSTM", 4, {"direction": "bidirectional"}),
        ("GRU", 3, {"direction": "reverse", "linear_before_reset": 1}),
        ("RNN", 1, {"batch": 3}),
    ],
    ids=["lstm-both-ways", "gru-backwards", "rnn-batch"],
)
def test_steps_are_a_loop_that_computes_the_layer(
    kind: str, gates: int, attributes: dict[str, Any], tmp_path: Path
) -> None:
    steps, batch = 12, attributes.get("batch", 1)
    data = make_layer(kind, gates, steps, **attributes)
    network = lowered(data)
    longest = max(network.plan.loops, key=lambda loop: loop.calls * loop.times)
    assert longest.times >= steps - 2
    random = np.random.default_rng(1)
    shape = (steps, batch, INPUTS)
    samples = [{"x": random.normal(0, 1, shape).astype("float32")} for _ in range(2)]
    expected = run_reference(data, samples).outputs
    ran = executed(replace(network, hooks=True), samples, tmp_path, SANITIZED)
    found = decode_outputs(ran.console, network.interface.outputs, 2, ran.exit_code)
    for ours, theirs in zip(found, expected, strict=True):
        for array, reference in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(array, reference, rtol=1e-5, atol=1e-6)
    text = (tmp_path / "sources/network/network.c").read_text("utf-8")
    assert f"step < {longest.times}; step++" in text
    assert f"network_before({longest.first + 1} + {longest.calls} * step);" in text


def test_more_steps_are_no_more_code() -> None:
    def count(steps: int) -> int:
        network = lowered(make_layer("RNN", 1, steps))
        repeated = sum(loop.calls * (loop.times - 1) for loop in network.plan.loops)
        return len(network.kernels.kernels) - repeated

    assert count(8) == count(40)


def make_calls(functions: str, places: list[list[tuple[str, int]]]) -> list[Call]:
    pairs = zip(functions, places, strict=True)
    return [Call(i, function, tuple(own)) for i, (function, own) in enumerate(pairs)]


def test_a_loop_begins_where_least_is_kept() -> None:
    # h begins before; each step computes t from x and h, and the next h from t.
    functions, places, buffers = "i", [[("h0", 0)]], [Buffer("h0", 4, 0, 1)]
    for n in range(4):
        functions += "ab"
        places += [[("x", 8 * n), (f"h{n}", 0), (f"t{n}", 0)], [(f"t{n}", 0), (f"h{n + 1}", 0)]]
        buffers += [
            Buffer(f"t{n}", 64, 2 * n + 1, 2 * n + 2),
            Buffer(f"h{n + 1}", 4, 2 * n + 2, 2 * n + 3),
        ]
    calls = make_calls(functions, places)
    loops = find_loops(calls, {b.name: b for b in buffers})
    assert [(loop.calls, loop.times) for loop in loops] == [(2, 4)]
    assert loops[0].first == 1
    folded = fold_loops(loops, calls, buffers, 10)
    assert len(folded.buffers) == 2
    assert {folded.parts[f"t{n}"] for n in range(4)} == {("t0", 0)}


def test_buffers_that_are_needed_together_lie_side_by_side() -> None:
    calls = make_calls("aaaz", [[(f"y{n}", 0)] for n in range(3)] + [[]])
    buffers = [Buffer(f"y{n}", 20, n, 3) for n in range(3)]
    loops = find_loops(calls, {b.name: b for b in buffers})
    assert loops == keep_small_loops(loops, calls, buffers) == (Loop(0, 1, 3),)
    folded = fold_loops(loops, calls, buffers, 4)
    assert [(b.bytes, b.first, b.last) for b in folded.buffers] == [(84, 0, 3)]
    assert [folded.parts[f"y{n}"] for n in range(3)] == [("y0", 0), ("y0", 32), ("y0", 64)]


def test_a_loop_that_would_take_more_memory_is_none() -> None:
    calls = make_calls("aaaa", [[(f"y{n}", 0)] for n in range(4)])
    buffers = [Buffer(f"y{n}", 20, n, n + 1) for n in range(4)]
    loops = find_loops(calls, {b.name: b for b in buffers})
    assert keep_small_loops(loops, calls, buffers) == ()
