"""The mathematics of toolchains without a C library, against numpy in double precision.

``fw_math.c`` is linked with zig's run-time library for bare platforms into a shared library of the
host. Source, expf, exp and log are the same.
"""

from __future__ import annotations

import ctypes
import math
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from firmwright.toolchain.compilers import run_compiler

from .projects import load_build, write_freestanding

UNARY = (
    *("acosf", "acoshf", "asinf", "asinhf", "atanf", "atanhf", "coshf", "erff", "expm1f"),
    *("log1pf", "nearbyintf", "rintf", "sinhf", "tanhf"),
)
HARNESS = """
#include <math.h>
#include <stddef.h>
#define UNARY(name) \\
    void many_##name(const float *x, float *result, size_t count); \\
    void many_##name(const float *x, float *result, size_t count) \\
    { \\
        for (size_t i = 0; i < count; i++) { \\
            result[i] = name(x[i]); \\
        } \\
    }
%s
void many_powf(const float *x, const float *y, float *result, size_t count);
void many_powf(const float *x, const float *y, float *result, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        result[i] = powf(x[i], y[i]);
    }
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory, compiler_cache: Path) -> ctypes.CDLL:
    build, compiler = load_build("host", "zig")
    folder = tmp_path_factory.mktemp("math") / "project"
    write_freestanding(folder)
    (folder / "many.c").write_text(HARNESS % "\n".join(f"UNARY({name})" for name in UNARY))
    target = build.settings.flags
    compile_c = (*compiler.command, "cc", *build.compile_flags, "-fPIC", "-isystem", "freestanding")
    build_rt = ("build-obj", f"{compiler.folder}/lib/compiler_rt.zig", "-fno-compiler-rt")
    rt_flags = ("-OReleaseFast", "-fstrip", "-fPIC", "-j1", "-femit-bin=rt.o")
    link = ("ld.lld", "-shared", "-Bsymbolic", "-o", "math.so", "fw_math.o", "many.o", "rt.o")
    for command in (
        (*compile_c, "-c", "-o", "fw_math.o", "freestanding/fw_math.c"),
        (*compile_c, "-c", "-o", "many.o", "many.c"),
        (*compiler.command, *build_rt, *target, *rt_flags),
        (*compiler.command, *link),
    ):
        try:
            run_compiler(command, folder, compiler_cache)
        except subprocess.CalledProcessError as error:
            pytest.fail(error.stdout)
    return ctypes.CDLL(str(folder / "math.so"))


def call(library: ctypes.CDLL, name: str, *arguments: np.ndarray) -> np.ndarray:
    result = np.empty_like(arguments[0])
    arrays = (*arguments, result)
    assert all(array.dtype == np.float32 and array.flags.c_contiguous for array in arrays)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
    getattr(library, f"many_{name}")(*pointers, ctypes.c_size_t(result.size))
    return result


def floats(low: float, high: float) -> np.ndarray:
    """Evenly spread values and values of every exponent, of both signs if the function accepts
    them."""
    even = np.linspace(low, high, 200_001)
    exponents = np.concatenate([[0.0], np.geomspace(1e-44, 3e38, 200_001)])
    values = np.concatenate([even, exponents, -exponents]).astype(np.float32)
    return np.ascontiguousarray(values[(values >= low) & (values <= high)])


def ulps(result: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distance in units of the last place of the result."""
    with np.errstate(all="ignore"):
        expected = exact.astype(np.float32)
        distance = np.abs(result.astype(np.float64) - exact) / np.spacing(np.abs(expected))
    same = (result == expected) | (np.isnan(result) & np.isnan(expected))
    return np.where(same, 0.0, np.where(np.isfinite(distance), distance, np.inf))


def erf(x: np.ndarray) -> np.ndarray:
    return np.array([math.erf(value) for value in x])


@pytest.mark.parametrize(
    ("name", "exact", "low", "high"),
    [
        ("acosf", np.arccos, -1.0, 1.0),
        ("acoshf", np.arccosh, 1.0, 3e38),
        ("asinf", np.arcsin, -1.0, 1.0),
        ("asinhf", np.arcsinh, -3e38, 3e38),
        ("atanf", np.arctan, -3e38, 3e38),
        ("atanf", np.arctan, -3.0, 3.0),
        ("atanhf", np.arctanh, -1.0, 1.0),
        ("coshf", np.cosh, -95.0, 95.0),
        ("erff", erf, -5.0, 5.0),
        ("expm1f", np.expm1, -110.0, 95.0),
        ("expm1f", np.expm1, -1.0, 1.0),
        ("log1pf", np.log1p, -1.0, 1.0),
        ("log1pf", np.log1p, -1.0, 3e38),
        ("nearbyintf", np.rint, -100.0, 100.0),
        ("rintf", np.rint, -3e38, 3e38),
        ("sinhf", np.sinh, -95.0, 95.0),
        ("tanhf", np.tanh, -3e38, 3e38),
        ("tanhf", np.tanh, -10.0, 10.0),
    ],
)
def test_is_within_two_ulp(
    library: ctypes.CDLL,
    name: str,
    exact: Callable[[np.ndarray], np.ndarray],
    low: float,
    high: float,
) -> None:
    x = floats(low, high)
    with np.errstate(all="ignore"):
        reference = exact(x.astype(np.float64))
    error = ulps(call(library, name, x), reference)
    worst = int(error.argmax())
    assert error[worst] <= 2.0, f"{name}({x[worst]!r}) is {error[worst]:.2f} ulp off"


def test_powf_is_within_two_ulp(library: ctypes.CDLL) -> None:
    random = np.random.default_rng(7)
    x = np.abs(random.normal(size=400_000) * 10.0 ** random.integers(-6, 6, 400_000))
    y = random.uniform(-12, 12, 400_000)
    x32, y32 = x.astype(np.float32), y.astype(np.float32)
    with np.errstate(all="ignore"):
        reference = x32.astype(np.float64) ** y32.astype(np.float64)
    assert ulps(call(library, "powf", x32, y32), reference).max() <= 2.0


def test_powf_has_the_special_cases_of_c99(library: ctypes.CDLL) -> None:
    special = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 2.5, -2.5, 1e9, -1e9]
    special += [math.inf, -math.inf, math.nan]
    pairs = np.array([(x, y) for x in special for y in special], dtype=np.float32)
    x, y = (np.ascontiguousarray(column) for column in pairs.T)
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(np.float64), y.astype(np.float64)).astype(np.float32)
    result = call(library, "powf", x, y)
    np.testing.assert_array_equal(result, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result[numbers]), np.signbit(expected[numbers]))


def test_halves_round_to_even(library: ctypes.CDLL) -> None:
    halves = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 4194303.5, 8388607.5], dtype=np.float32)
    expected = np.array([0, 2, 2, -0.0, -2, -2, 4194304, 8388608], dtype=np.float32)
    for name in ("rintf", "nearbyintf"):
        result = call(library, name, halves)
        np.testing.assert_array_equal(result, expected)
        np.testing.assert_array_equal(np.signbit(result), np.signbit(expected))


@pytest.mark.parametrize(
    ("name", "exact"),
    [
        ("asinhf", np.arcsinh),
        ("atanf", np.arctan),
        ("erff", erf),
        ("expm1f", np.expm1),
        ("rintf", np.rint),
        ("sinhf", np.sinh),
        ("tanhf", np.tanh),
    ],
)
def test_infinities_zeros_and_nan_are_kept_apart(
    library: ctypes.CDLL, name: str, exact: Callable[[np.ndarray], np.ndarray]
) -> None:
    x = np.array([0.0, -0.0, math.inf, -math.inf, math.nan], dtype=np.float32)
    result = call(library, name, x)
    np.testing.assert_array_equal(result, exact(x.astype(np.float64)).astype(np.float32))
    assert list(np.signbit(result[:2])) == [False, True]
