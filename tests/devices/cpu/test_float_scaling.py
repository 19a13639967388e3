"""Float32 scaling of sums in integers: every sum, with factors whose products are near halves."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from firmwright.codegen.templates import make_environment

SOURCE = """#include <math.h>
#include <stdint.h>
#include <stdio.h>
{% from "c/layers/requantize.j2" import define_float_scaling with context %}
{{ define_float_scaling() }}

/* Prints how many results differ from float32's, and how many would if they were rounded once. */
int main(void)
{
    const float factors[] = {0.005f, 0.3f, 1.0f / 3.0f, 0.0003f, 0.49999997f, 0.0123456f};
    long wrong = 0, twice = 0;

    for (int i = 0; i < 6; ++i) {
        int exponent;
        const int32_t mantissa = (int32_t)ldexpf(frexpf(factors[i], &exponent), 24);

        for (int32_t sum = -(1 << 24) + 1; sum < 1 << 24; sum += 1 + (i > 3)) {
            const double exact = (double)sum * (double)factors[i];
            const int32_t expected = (int32_t)rintf((float)sum * factors[i]);

            if (expected > -65536 && expected < 65536) {
                wrong += fw_scale_as_float(sum, mantissa, 24 - exponent) != expected;
                twice += (int32_t)rint(exact) != expected;
            }
        }
    }
    printf("%ld %d\\n", wrong, twice > 0);
    return 0;
}
"""


@pytest.mark.needs("gcc")
def test_sums_are_scaled_as_float32_scales_them(tmp_path: Path) -> None:
    (tmp_path / "scale.c").write_text(make_environment().from_string(SOURCE).render())
    flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"]
    subprocess.run(["gcc", *flags, "scale.c", "-o", "scale", "-lm"], cwd=tmp_path, check=True)
    printed = subprocess.run([tmp_path / "scale"], capture_output=True, text=True, check=True)
    assert printed.stdout == "0 1\n"
