"""Sums and differences of bytes that wrap: any address, any length, and the regions with a form."""

from __future__ import annotations

import ctypes
import subprocess
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from tvm import relax

from firmwright.devices.cpu.forms.rv32 import FORMS
from firmwright.devices.cpu.layer_functions import write_function
from firmwright.ir.kernels import Parameter
from firmwright.lowering.pairs import make_wrapped_sum, read_wrapped_sum

(FORM,) = (form for form in FORMS if form.name == "rv32m_wrapped_sum")

ELEMENTS = 77
"""Two blocks of 32 bytes, and a rest that depends on the address."""


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("sign", [1, -1])
def test_every_address_gives_exact_bytes(sign: int, tmp_path: Path) -> None:
    layer = make_wrapped_sum(ELEMENTS, "uint8", sign)
    inputs = [Parameter(f"input_{i}", "uint8", ELEMENTS, "") for i in range(2)]
    output = Parameter("output", "uint8", ELEMENTS, "")
    function = write_function(FORM, layer, FORM.pack_layer(layer), inputs, [output], False)
    for file in function.files:
        (tmp_path / file.name).write_text(file.text.replace("network_", ""))
    library = tmp_path / "sum.so"
    command = ["gcc", "-O2", "-shared", "-fPIC", "-fsanitize=undefined"]
    command += ["-fsanitize-undefined-trap-on-error", "-o", str(library)]
    subprocess.run([*command, *map(str, tmp_path.glob("*.c"))], check=True)
    compute = getattr(ctypes.CDLL(str(library)), function.name)
    generator = np.random.default_rng(1)
    for places in product(range(4), repeat=3):
        memory = generator.integers(0, 256, (3, 128), "uint8")
        first, second, found = (
            row[place : place + ELEMENTS] for row, place in zip(memory, places, strict=True)
        )
        before = memory.copy()
        compute(*(part.ctypes.data_as(ctypes.c_void_p) for part in (first, second, found)))
        np.testing.assert_array_equal(found, first + second if sign > 0 else first - second)
        found[:] = before[2, places[2] : places[2] + ELEMENTS]
        np.testing.assert_array_equal(memory, before)


def build(operator: str, dtype: str, second: tuple[int, ...]) -> relax.Function:
    builder = relax.BlockBuilder()
    a, b = (
        relax.Var(name, relax.TensorType(shape, dtype))
        for name, shape in (("a", (1, 4, 6)), ("b", second))
    )
    with builder.function("main", [a, b]):
        with builder.dataflow():
            result = builder.emit_output(getattr(relax.op, operator)(a, b))
        builder.emit_func_output(result)
    return builder.get()["main"]


def test_sums_and_differences_of_equal_shapes_are_read() -> None:
    read = [read_wrapped_sum(build(n, "int8", (1, 4, 6))) for n in ("add", "subtract")]
    assert [layer.sign for layer in read if layer] == [1, -1]


@pytest.mark.parametrize(
    ("operator", "dtype", "second"),
    [
        ("add", "int8", (1, 1, 6)),
        ("add", "int16", (1, 4, 6)),
        ("multiply", "int8", (1, 4, 6)),
    ],
)
def test_other_operators_types_and_shapes_are_not_read(
    operator: str, dtype: str, second: tuple[int, ...]
) -> None:
    assert read_wrapped_sum(build(operator, dtype, second)) is None
