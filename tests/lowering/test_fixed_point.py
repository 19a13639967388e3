"""The functions of fixed_point.h round as their comments state, also at the limits."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from fractions import Fraction
from math import floor
from pathlib import Path

import numpy as np
import pytest

from firmwright.codegen.templates import make_environment, render
from firmwright.lowering.kernels.fixed_point import (
    find_tie_direction,
    quantize_multiplier,
    to_fixed_point,
)
from tests.sanitizers import SANITIZERS

PROGRAM = """
#include <stdio.h>
#include "fixed_point.h"

int main(void)
{
    int x, y, left, shift;

    while (scanf("%d %d %d %d", &x, &y, &left, &shift) == 4) {
        int32_t small = x / 4 + x % 2;
        printf("%d %d %d %d %d %d %d %d %d %d %d\\n", fixed_product(x, y), fixed_shift(x, shift),
            fixed_scale_any(x, y, left, shift), fixed_scale_once(x, y, shift - left),
            small > -(1 << 29) && small < 1 << 29 ? fixed_scale(small, y, shift) : 0,
            fixed_scale_once_wide((int64_t)x * 8, y, shift - left),
            fixed_scale_wide((int64_t)x * 8, y >> 16, shift - left),
            fixed_scale_tied((int64_t)x * 8, y, shift - left, 1),
            fixed_scale_tied((int64_t)x * 8, y, shift - left, 0),
            small > -(1 << 29) && small < 1 << 29 ? fixed_steps(small, y, left, shift) : 0,
            fixed_float(x >> 8, y >> 8 | 1 << 23, 24 + shift % 23));
    }
    return 0;
}
"""

EDGES = (0, 1, -1, 2, 3, -3, 2**29, 2**30, -(2**30), 2**31 - 1, -(2**31), 1 << 12, -(1 << 12) - 1)
SMALL = 2**29
HALF = Fraction(1, 2)


def nearest(value: Fraction) -> int:
    """Round to nearest, ties up."""
    return floor(value + Fraction(1, 2))


def nearest_away(value: Fraction) -> int:
    """Round to nearest, ties away from zero."""
    return nearest(value) if value >= 0 else -nearest(-value)


def nearest_towards(value: Fraction) -> int:
    """Round to nearest, ties towards zero."""
    return -nearest(-value) if value >= 0 else nearest(value)


def wrapped(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def twice(x: int, y: int, shift: int) -> int:
    return nearest_away(Fraction(nearest(Fraction(x * y, 2**31)), 2**shift))


def expected(x: int, y: int, left: int, shift: int) -> list[int]:
    remainder = x % 2 if x >= 0 else -(x % 2)
    small = int(Fraction(x, 4)) + remainder
    wide = Fraction(8 * x * y, 2 ** (31 + shift - left))
    return [
        nearest(Fraction(x * y, 2**31)),
        nearest_away(Fraction(x, 2**shift)),
        twice(wrapped(x << left), y, shift),
        wrapped(nearest(Fraction(x * y, 2 ** (31 + shift - left)))),
        twice(small, y, shift) if -SMALL < small < SMALL else 0,
        wrapped(nearest(wide)),
        wrapped(nearest(Fraction(8 * x * (y >> 16), 2 ** (15 + shift - left)))),
        wrapped(nearest_away(wide)),
        wrapped(nearest_towards(wide)),
        ((small * y >> 30) + left) >> shift if -SMALL < small < SMALL else 0,
        int(np.rint(np.float32(x >> 8) * np.float32((y >> 8 | 2**23) / 2 ** (24 + shift % 23)))),
    ]


def arguments() -> Iterator[tuple[int, int, int, int]]:
    """Yield x, a multiplier, a left and a right shift; many x are ties of the right shift."""
    for x in EDGES:
        for y in (0, 1, 2**30, 2**31 - 1):
            for shift in (0, 1, 15, 31):
                yield x, y, 0, shift
    generator = random.Random(1)
    for _ in range(20000):
        shift = generator.randrange(32)
        x = generator.randrange(-(2**31), 2**31) >> generator.randrange(31)
        if generator.random() < 0.5 and shift:
            x = wrapped((x << shift) + 2 ** (shift - 1))
        yield (
            x,
            generator.choice((2**30, generator.randrange(2**31))),
            generator.randrange(9),
            shift,
        )


def compile_with_fixed_point(program: str, folder: Path) -> None:
    """Compile a program that includes ``fixed_point.h`` to ``main``, with sanitizers."""
    header = render(make_environment(), "network/fixed_point.h.j2", {"prefix": "network"})
    (folder / "fixed_point.h").write_text(header)
    (folder / "main.c").write_text(program)
    command = ["gcc", "-std=c99", "-O2", *SANITIZERS, "-o", "main", "main.c"]
    subprocess.run(command, cwd=folder, check=True)


@pytest.mark.needs("gcc")
def test_rounding_is_exact_and_defined(tmp_path: Path) -> None:
    compile_with_fixed_point(PROGRAM, tmp_path)
    cases = list(arguments())
    text = "\n".join(" ".join(map(str, case)) for case in cases)
    printed = subprocess.run(
        [tmp_path / "main"], input=text, capture_output=True, text=True, check=True
    ).stdout
    for case, line in zip(cases, printed.splitlines(), strict=True):
        assert [int(word) for word in line.split()] == expected(*case), case


@pytest.mark.parametrize(
    ("factor", "mantissa", "shift"),
    [
        (0.0, 0, 0),
        (1.0, 2**30, 1),
        (0.5, 2**30, 0),
        (0.75, 3 * 2**29, 0),
        (1.0 - 2.0**-40, 2**30, 1),  # the mantissa rounds up to 2^31 and is halved
        (2.0**-32, 2**30, -31),
        (2.0**-33, 0, 0),  # too small to differ from zero
    ],
)
def test_quantized_multipliers(factor: float, mantissa: int, shift: int) -> None:
    assert quantize_multiplier(factor) == (mantissa, shift)


@pytest.mark.parametrize("factor", [0.5, 0.25, 0.75, 0.3125, 1.5, 3 * 2.0**-20, 0.3])
def test_ties_have_a_direction_exactly_if_an_integer_is_one(factor: float) -> None:
    quotient = np.array(factor)
    factors = to_fixed_point(quotient)
    exact = Fraction(int(factors.mantissa[0])) / Fraction(2) ** (31 - int(factors.shift[0]))
    for largest in (*range(1, 20), 2**18, 2**19 - 1, 2**19, 2**20):
        first = next((x for x in (1, 2, 4, 8, 16, 2**18, 2**19) if x * exact % 1 == HALF), None)
        expected = "up" if first is not None and first <= largest else ""
        assert find_tie_direction(quotient, factors, largest) == expected, largest


def test_ties_of_a_factor_that_was_rounded_up_go_down() -> None:
    quotient = np.array(0.25 - 2.0**-40)
    factors = to_fixed_point(quotient)
    assert factors.mantissa[0] == 2**30
    assert find_tie_direction(quotient, factors, 2) == "down"


def test_factors_of_channels_have_no_direction_of_ties() -> None:
    quotients = np.array([0.5, 0.5])
    assert find_tie_direction(quotients, to_fixed_point(quotients), 8) == ""
