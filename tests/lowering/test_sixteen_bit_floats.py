"""float16 and bfloat16: conversions bit by bit, and networks against their definitions."""

from __future__ import annotations

import shutil
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import pytest
import tvm
from onnx.reference import ReferenceEvaluator

from firmwright.codegen.templates import make_environment, render
from firmwright.errors import UserError
from firmwright.models.onnx import importer as onnx_importer
from firmwright.models.relax import importer as relax_importer
from tests.networks.firmware import SANITIZED, lowered, run_generated
from tests.networks.onnx_models import graph, node, value
from tests.sanitizers import SANITIZERS

Array = npt.NDArray[Any]

TYPES = {"float16": np.dtype("float16"), "bfloat16": np.dtype(ml_dtypes.bfloat16)}

PROGRAM = """
#include <stdio.h>
#include "sixteen_bit_floats.h"

int main(void)
{
    FROM x;

    while (fread(&x, sizeof x, 1, stdin) == 1) {
        TO y = FUNCTION(x);
        fwrite(&y, sizeof y, 1, stdout);
    }
    return 0;
}
"""


def convert(function: str, numbers: Array, result: str, folder: Path) -> Array:
    """Run a function of the header over numbers, or over the bits of 16-bit floats."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    header = render(make_environment(), "network/sixteen_bit_floats.h.j2", {"prefix": "network"})
    (folder / "sixteen_bit_floats.h").write_text(header)
    (folder / "main.c").write_text(PROGRAM)
    c_types = {"uint16": "uint16_t", "float32": "float", "float64": "double"}
    defined = {"FUNCTION": function, "FROM": c_types[numbers.dtype.name], "TO": c_types[result]}
    definitions = [f"-D{name}={text}" for name, text in defined.items()]
    command = ["gcc", "-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
    command += [*SANITIZERS, *definitions, "-o", "main", "main.c"]
    subprocess.run(command, cwd=folder, check=True)
    ran = subprocess.run(
        [folder / "main"], input=numbers.tobytes(), capture_output=True, check=True
    )
    return np.frombuffer(ran.stdout, result)


def near_ties(kind: np.dtype[Any], wide: str) -> Array:
    """Return all 16-bit numbers, the middles between neighbors, and the numbers next to these."""
    finite = np.arange(2**16, dtype="uint16").view(kind).astype(wide)
    finite = np.unique(finite[np.isfinite(finite)])
    middles = finite[:-1] + (finite[1:] - finite[:-1]) / 2
    largest = finite[-1] + (finite[-1] - finite[-2]) / 2
    places = np.concatenate([finite, middles, [largest, -largest]]).astype(wide)
    limits = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, np.finfo(wide).max], wide)
    beside = [np.nextafter(places, np.array(to, wide)) for to in (np.inf, -np.inf)]
    random = np.random.default_rng(1).integers(0, 2**32, 2**16).astype("uint32").view("float32")
    return np.concatenate([places, *beside, limits, random.astype(wide)])


@pytest.mark.parametrize("name", TYPES)
def test_every_number_of_16_bits_widens_exactly(name: str, tmp_path: Path) -> None:
    bits = np.arange(2**16, dtype="uint16")
    found = convert(f"{name}_to_float32", bits, "float32", tmp_path)
    expected = bits.view(TYPES[name]).astype("float32")
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(found[numbers].view("uint32"), expected[numbers].view("uint32"))


@pytest.mark.parametrize("wide", ["float32", "float64"])
@pytest.mark.parametrize("name", TYPES)
def test_rounding_is_to_nearest_even_and_defined(name: str, wide: str, tmp_path: Path) -> None:
    kind = TYPES[name]
    numbers = near_ties(kind, wide)
    found = convert(f"{wide}_to_{name}", numbers, "uint16", tmp_path)
    with np.errstate(over="ignore", under="ignore"):
        expected = rounded(numbers, kind)
    nan = np.isnan(numbers)
    assert np.isnan(found.view(kind)[nan]).all()
    np.testing.assert_array_equal(found[~nan], expected.view("uint16")[~nan])


def rounded(numbers: Array, kind: np.dtype[Any]) -> Array:
    """Round once, as numpy does; ml_dtypes converts doubles to bfloat16 through float32."""
    if kind == np.float16 or numbers.dtype == np.float32:
        return numbers.astype(kind)
    every = np.unique(np.arange(2**15, dtype="uint16").view(kind).astype("float64"))
    every = np.append(every[np.isfinite(every)], 2.0**128)  # where the next number would be
    size = np.minimum(np.abs(numbers), every[-1])
    above = np.clip(np.searchsorted(every, size), 1, len(every) - 1)
    to_above, to_below = every[above] - size, size - every[above - 1]
    up = (to_above < to_below) | ((to_above == to_below) & (above % 2 == 0))
    bits = (np.where(up, above, above - 1) | (np.signbit(numbers) << 15)).astype("uint16")
    result: Array = bits.view(kind)
    return result


def network(name: str) -> bytes:
    """Return a convolution, a product with weights, additions and moves, all with 16-bit floats."""
    kind = TYPES[name]
    number = onnx.helper.np_dtype_to_tensor_dtype(kind)
    random = np.random.default_rng(3)
    constants = {
        "w": random.normal(0, 0.3, (4, 2, 3, 3)).astype(kind),
        "b": random.normal(0, 1, (4,)).astype(kind),
        "m": random.normal(0, 0.3, (16, 5)).astype(kind),
        "flat": np.array([1, 16]),
    }
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"]),
        node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Concat", ["p", "p"], ["q"], axis=2),
        node("AveragePool", ["q"], ["a"], kernel_shape=[2, 1], strides=[2, 1]),
        node("Reshape", ["a", "flat"], ["f"]),
        node("MatMul", ["f", "m"], ["s"]),
        node("Sigmoid", ["s"], ["y"]),
    ]
    inputs = [value("x", [1, 2, 4, 4], number)]
    model = graph(nodes, inputs, [value("y", [1, 5], number)], constants)
    return bytes(model.SerializeToString())


@pytest.mark.parametrize("name", TYPES)
def test_networks_agree_with_onnx_to_a_step_of_their_type(name: str, tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    samples = [{"x": random.normal(0, 1, (1, 2, 4, 4)).astype(TYPES[name])} for _ in range(3)]
    found = run_generated(network(name), samples, tmp_path, SANITIZED)
    model = onnx.load_model_from_string(in_float32(network(name)))
    for sample, (ours,) in zip(samples, found, strict=True):
        (expected,) = ReferenceEvaluator(model).run(None, {"x": sample["x"].astype("float32")})
        assert ours.dtype == TYPES[name]
        step = 2.0 ** (-10 if name == "float16" else -7)
        np.testing.assert_allclose(ours.astype("float32"), np.asarray(expected), rtol=4 * step)


def in_float32(data: bytes) -> bytes:
    """Return the network with all types and weights converted to float32."""
    model = onnx.load_model_from_string(data)
    for constant in model.graph.initializer:
        array = onnx.numpy_helper.to_array(constant)
        if array.dtype in TYPES.values():
            array = array.astype("float32")
        constant.CopyFrom(onnx.numpy_helper.from_array(array, constant.name))
    for port in (*model.graph.input, *model.graph.output):
        port.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return bytes(model.SerializeToString())


ARITHMETIC = {"Add": 2, "Sub": 2, "Mul": 2, "Div": 2, "Sqrt": 1, "Neg": 1, "Max": 2, "Floor": 1}


def test_basic_arithmetic_is_that_of_numpy_bit_for_bit(tmp_path: Path) -> None:
    names = ["x", "z"]
    nodes = [node(op, names[:n], [op.lower()]) for op, n in ARITHMETIC.items()]
    # If one operator rounds its result, the next one in the region reads the rounded result.
    nodes += [node("Mul", ["add", "add"], ["square"]), node("Sub", ["square", "x"], ["rest"])]
    half = onnx.TensorProto.FLOAT16
    results = [value(n.output[0], [4096], half) for n in nodes if n.output[0] != "square"]
    data = graph(nodes, [value(n, [4096], half) for n in names], results).SerializeToString()
    bits = np.random.default_rng(5).integers(0, 2**16, (2, 4096)).astype("uint16")
    finite = np.where(bits >> 10 & 31 == 31, bits ^ 0x4000, bits).astype("uint16").view("float16")
    sample = dict(zip(names, finite, strict=True))
    (found,) = run_generated(data, [sample], tmp_path, SANITIZED)
    with np.errstate(all="ignore"):
        expected = ReferenceEvaluator(onnx.load_model_from_string(data)).run(None, sample)
    for port, ours, theirs in zip(results, found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=port.name)


def test_onnx_runtime_judges_float16(tmp_path: Path) -> None:
    sample = {"x": np.random.default_rng(6).normal(0, 1, (1, 2, 4, 4)).astype("float16")}
    ((ours,),) = run_generated(network("float16"), [sample], tmp_path)
    reference = onnx_importer.run_reference(network("float16"), [sample])
    assert reference.runtime.startswith("onnxruntime")
    np.testing.assert_allclose(ours, reference.outputs[0][0], rtol=2**-9)


def test_tensors_take_two_bytes_an_element() -> None:
    tensors = {t.name: t for t in lowered(network("float16")).partition.tensors}
    assert tensors["input_0"].bytes == 2 * 2 * 4 * 4
    assert {t.dtype for t in tensors.values()} == {"float16"}


def relax_module(body: str) -> bytes:
    """Return a module whose ``main`` reads and returns eight numbers."""
    text = f"""
@I.ir_module
class Module:
{textwrap.indent(textwrap.dedent(body), "    ")}
"""
    return str(tvm.ir.save_json(tvm.script.from_source(text, extra_vars=NAMES))).encode()


NAMES = {"I": tvm.script.ir, "R": tvm.script.relax, "T": tvm.script.tirx}


@pytest.mark.parametrize("name", TYPES)
def test_relax_modules_round_after_every_operator(name: str, tmp_path: Path) -> None:
    data = relax_module(f"""
        @R.function
        def main(x: R.Tensor((8,), "{name}")):
            with R.dataflow():
                two = R.multiply(x, R.const(3, "{name}"))
                rest = R.subtract(two, x)
                R.output(rest)
            return rest
    """)
    sample = {"x": np.random.default_rng(7).normal(0, 9, 8).astype(TYPES[name])}
    ((ours,),) = run_generated(data, [sample], tmp_path, SANITIZED, "relax")
    np.testing.assert_array_equal(ours, sample["x"] * TYPES[name].type(3) - sample["x"])
    (expected,) = relax_importer.run_reference(data, [sample]).outputs
    np.testing.assert_array_equal(ours, expected[0])


def test_loops_of_the_users_own_on_16_bit_floats_are_refused() -> None:
    data = relax_module("""
        @T.prim_func(private=True, s_tir=True)
        def twice(x: T.Buffer((8,), "float16"), y: T.Buffer((8,), "float16")):
            for i in range(8):
                with T.sblock("y"):
                    at = T.axis.spatial(8, i)
                    y[at] = x[at] + x[at]

        @R.function
        def main(x: R.Tensor((8,), "float16")):
            with R.dataflow():
                y = R.call_tir(Module.twice, (x,), out_ty=R.Tensor((8,), "float16"))
                R.output(y)
            return y
    """)
    with pytest.raises(UserError, match=r"twice \('y'\): it computes float16"):
        lowered(data, "relax", "onnx")
