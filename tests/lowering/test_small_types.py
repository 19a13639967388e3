"""Types of 8, 4 and 2 bits that C99 lacks, compared with ml_dtypes and ONNX's definitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper, numpy_helper

from firmwright.ir.small_types import from_bytes, to_bytes
from firmwright.ir.tensors import STORED_AS
from firmwright.models.onnx.onnxruntime_outputs import run_onnx_evaluator
from tests.networks.firmware import SANITIZED, run_generated
from tests.networks.onnx_models import graph, node, value

Array = npt.NDArray[Any]

FLOATS = [name for name in STORED_AS if "float" in name]
INTEGERS = [name for name in STORED_AS if "int" in name]
POWERS, PAIRS = "float8_e8m0fnu", "float4_e2m1fn"
OPSET = 26


def element(dtype: str) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def run_casts(
    given: dict[str, Array], nodes: list[tuple[str, onnx.NodeProto]], folder: Path
) -> dict[str, Array]:
    """Compile one network of these nodes, each with the type of its result, and run it."""
    inputs = [value(n, a.shape, element(a.dtype.name)) for n, a in given.items()]
    outputs = [value(n.output[0], given[n.input[0]].shape, element(t)) for t, n in nodes]
    data = graph([n for _, n in nodes], inputs, outputs, opset=OPSET).SerializeToString()
    sample = {name: to_bytes(array) for name, array in given.items()}
    (found,) = run_generated(data, [sample], folder, SANITIZED)
    return {
        n.output[0]: from_bytes(a, t) if t in STORED_AS else a
        for a, (t, n) in zip(found, nodes, strict=True)
    }


def assert_same(found: Array, expected: Array, label: str) -> None:
    """Compare bit by bit, except for the bits of NaN."""
    assert found.dtype == expected.dtype, label
    with np.errstate(invalid="ignore"):
        nan, wanted = (np.isnan(a.astype("float64")) for a in (found, expected))
    np.testing.assert_array_equal(nan, wanted, label)
    ours, theirs = (a[~nan].view(f"u{a.dtype.itemsize}") for a in (found, expected))
    np.testing.assert_array_equal(ours, theirs, label)


def find_ties(kind: str) -> Array:
    """Return, as float32, every number of a type, and the middles between neighbors."""
    every = np.arange(256, dtype="uint8").view(kind).astype("float32")
    every = np.unique(every[np.isfinite(every)])
    middles = every[:-1] + (every[1:] - every[:-1]) / 2
    beyond = every[-1] + (every[-1] - every[-2]) / np.array([2, 1], "float32")
    return np.concatenate([every, middles, beyond, -beyond]).astype("float32")


def make_numbers(wide: str) -> Array:
    """Return numbers to convert: all numbers of 16 bits, or ties, limits and random numbers."""
    if np.dtype(wide).itemsize == 2:
        return np.arange(2**16, dtype="uint16").view(wide)
    random = np.random.default_rng(1).integers(0, 2**32, 2**14).astype("uint32").view("float32")
    tiny = np.arange(64, dtype="uint32").view("float32")
    limits = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, np.finfo("float32").max], "float32")
    with np.errstate(over="ignore"):
        ties = np.concatenate([find_ties(kind) for kind in FLOATS])
        beside = [np.nextafter(ties, np.float32(to)) for to in (np.inf, -np.inf)]
    return np.concatenate([ties, *beside, limits, tiny, random])


def expect_cast(numbers: Array, kind: str, settings: dict[str, Any]) -> Array:
    saturate = settings.get("saturate", 1)
    if kind == POWERS:
        mode = settings.get("round_mode", "up")
        codes = numpy_helper.to_float8e8m0(numbers, bool(saturate), mode).view("uint8").copy()
        if saturate:  # Cast's table requires the largest number, ONNX's evaluator returns NaN
            codes[np.isinf(numbers.astype("float32"))] = 254
        return codes.view(kind)
    with np.errstate(over="ignore", invalid="ignore"):
        if saturate and kind != PAIRS:
            return numpy_helper.saturate_cast(numbers, np.dtype(kind))
        return numbers.astype(kind)


def list_casts() -> list[tuple[str, dict[str, Any]]]:
    modes = [
        {"round_mode": mode, "saturate": s} for mode in ("up", "down", "nearest") for s in (0, 1)
    ]
    casts: list[tuple[str, dict[str, Any]]] = [(POWERS, mode) for mode in modes]
    casts += [(kind, {"saturate": s}) for kind in FLOATS if kind != POWERS for s in (0, 1)]
    return [*casts, *((kind, {}) for kind in FLOATS)]


@pytest.mark.parametrize("wide", ["float32", "float16", "bfloat16"])
def test_floats_round_as_onnx_defines(wide: str, tmp_path: Path) -> None:
    numbers, casts = make_numbers(wide), list_casts()
    nodes = [
        (kind, node("Cast", ["x"], [f"y{i}"], to=element(kind), **settings))
        for i, (kind, settings) in enumerate(casts)
    ]
    found = run_casts({"x": numbers}, nodes, tmp_path)
    for i, (kind, settings) in enumerate(casts):
        expected = expect_cast(numbers, kind, settings)
        assert_same(found[f"y{i}"], expected, f"{kind} {settings}")


def test_doubles_are_rounded_once(tmp_path: Path) -> None:
    """A double next to a tie is not a tie, although the nearest float32 is one."""
    ties = {kind: find_ties(kind) for kind in FLOATS if kind != POWERS}
    given = {kind: tie.astype("float64") * (1 + 2.0**-40) for kind, tie in ties.items()}
    nodes = [(kind, node("Cast", [kind], [f"{kind}_y"], to=element(kind))) for kind in given]
    found = run_casts(given, nodes, tmp_path)
    for kind, tie in ties.items():
        away = np.nextafter(tie, np.where(tie < 0, -np.inf, np.inf).astype("float32"))
        away[tie == 0] = tie[tie == 0]
        assert_same(found[f"{kind}_y"], expect_cast(away, kind, {}), kind)


def test_every_code_widens_exactly(tmp_path: Path) -> None:
    given = {kind: make_codes(kind) for kind in STORED_AS}
    wide = ["float32", "float16", "bfloat16", "float64", "int32"]
    pairs = [(a, b) for a in given for b in wide if b != "int32" or a in INTEGERS]
    nodes = [(b, node("Cast", [a], [f"{a}_{b}"], to=element(b))) for a, b in pairs]
    found = run_casts(given, nodes, tmp_path)
    for a, b in pairs:
        with np.errstate(over="ignore", invalid="ignore"):
            expected = given[a].astype("float32").astype(b)
        assert_same(found[f"{a}_{b}"], expected, f"{a} to {b}")


def make_codes(kind: str) -> Array:
    """Return every number of a type, several times if it has fewer than 8 bits."""
    return from_bytes(np.arange(256, dtype="uint8").view(STORED_AS[kind]), kind)


def test_integers_lose_their_upper_bits(tmp_path: Path) -> None:
    whole = np.arange(-300, 300)
    given = {f"x_{t}": whole.astype(t) for t in ("float32", "float16", "int8", "int16", "int64")}
    given |= {f"x_{t}": make_codes(t) for t in INTEGERS}
    pairs = [(name, kind) for name in given for kind in INTEGERS]
    nodes = [(k, node("Cast", [n], [f"{n}_{k}"], to=element(k))) for n, k in pairs]
    found = run_casts(given, nodes, tmp_path)
    for name, kind in pairs:
        expected = given[name].astype("int64").astype(kind)
        assert_same(found[f"{name}_{kind}"], expected, f"{name} to {kind}")


GROUPS = (
    ("uint2", "int2"),
    ("uint4", "int4", "float4_e2m1fn"),
    ("uint8", "int8", *(f for f in FLOATS if f != "float4_e2m1fn")),
    ("uint16", "int16", "float16", "bfloat16"),
    ("uint32", "int32", "float32"),
    ("uint64", "int64", "float64"),
)
"""Types of one size."""


def test_bit_cast_keeps_every_bit(tmp_path: Path) -> None:
    random = np.random.default_rng(2).integers(0, 256, 2**11, "uint8")
    given = {}
    for group in GROUPS:
        for kind in group:
            given[kind] = make_codes(kind) if kind in STORED_AS else random.view(kind)
    pairs = [(a, b) for group in GROUPS for a in group for b in group]
    nodes = [(b, node("BitCast", [a], [f"{a}_{b}"], to=element(b))) for a, b in pairs]
    found = run_casts(given, nodes, tmp_path)
    for a, b in pairs:
        np.testing.assert_array_equal(get_bits(found[f"{a}_{b}"]), get_bits(given[a]), f"{a} {b}")


def get_bits(array: Array) -> Array:
    """Return the bits of numbers; ml_dtypes does not define the bits above a small number."""
    bits = array.view(f"u{array.dtype.itemsize}")
    return bits & (2 ** int(array.dtype.name[-1]) - 1) if array.dtype.name in INTEGERS else bits


def make_quantized(kind: str, scale: Array, **settings: Any) -> bytes:
    """A network that quantizes x to y, and dequantizes y to z and the input q to r."""
    shape, of_scale = [2, 6, 4], "float32" if scale.dtype.name == POWERS else scale.dtype.name
    points = np.resize(np.arange(2) if kind in INTEGERS else np.zeros(1), scale.shape)
    back = {**settings, "output_dtype": element(of_scale)}
    nodes = [
        node("QuantizeLinear", ["x", "s", "p"], ["y"], **settings),
        node("DequantizeLinear", ["y", "s", "p"], ["z"], **back),
        node("DequantizeLinear", ["q", "s", "p"], ["r"], **back),
    ]
    inputs = [value("x", shape, element(of_scale)), value("q", shape, element(kind))]
    outputs = [value("y", shape, element(kind))]
    outputs += [value(name, shape, element(of_scale)) for name in ("z", "r")]
    constants = {"s": scale, "p": points.astype("int8").astype(kind)}
    data: bytes = graph(nodes, inputs, outputs, constants, opset=25).SerializeToString()
    return data


SCALES = {
    "tensor": (np.float32(0.25), {}),
    "axis": (np.linspace(0.1, 0.9, 6).astype("float32"), {"axis": 1}),
    "half": (np.linspace(0.1, 0.9, 6).astype("float16"), {"axis": 1}),
    "blocks": (np.linspace(0.1, 0.9, 24).astype("float32").reshape(2, 3, 4),
               {"axis": 1, "block_size": 2}),
    "powers": (np.float32(2.0 ** np.arange(-3, 3)).astype(POWERS), {"axis": 1}),
    "blocks of powers": (np.float32(2.0 ** np.arange(-12, 12)).astype(POWERS).reshape(2, 3, 4),
                         {"axis": 1, "block_size": 2}),
}  # fmt: skip


@pytest.mark.parametrize("granularity", SCALES)
@pytest.mark.parametrize("kind", ["float8_e4m3fn", "float8_e5m2fnuz", PAIRS, "int4", "uint2"])
def test_quantization(kind: str, granularity: str, tmp_path: Path) -> None:
    scale, settings = SCALES[granularity]
    random = np.random.default_rng(3)
    data = make_quantized(kind, np.asarray(scale), **settings)
    of_scale = "float16" if granularity == "half" else "float32"
    sample = {
        "x": random.normal(0, 3, (2, 6, 4)).astype(of_scale),
        "q": to_bytes(random.integers(-7, 8, (2, 6, 4)).astype("float32").astype(kind)),
    }
    (found,) = run_generated(data, [sample], tmp_path, SANITIZED)
    reference = run_onnx_evaluator(data, [sample], (), Exception())
    for ours, theirs in zip(found, reference.outputs[0], strict=True):
        np.testing.assert_array_equal(ours, theirs)
