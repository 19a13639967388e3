"""The forms of x86-64 are exact with the instructions of any machine of its kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmwright.devices.cpu.all_forms import FORMS
from firmwright.devices.cpu.forms.form import Form
from tests.devices.cpu.layers import make_network
from tests.devices.cpu.test_forms import draw_layers, run_layers
from tests.networks.firmware import SANITIZED

X64 = [form for form in FORMS if "x86-64" in form.features]

COUNT = 3
"""Layers in a test, which are slow to compile."""

LEVELS = {
    "none": ("-DLAYER_LEVEL=0",),
    "avx2": ("-DLAYER_LEVEL=1",),
    "avx512": ("-O1", "-DLAYER_LEVEL=2", "-mavx2", "-I", str(Path(__file__).parent / "avx512")),
}
"""Flags of the compiler; plain C computes the instructions of AVX-512.

Without optimization, gcc already defines some of them as macros.
"""


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("form", X64, ids=lambda form: form.name)
def test_a_form_is_exact_at_every_level(
    form: Form, level: str, tmp_path: Path, cache: Path
) -> None:
    layers = draw_layers(form, seed=3)[0][:COUNT]
    network = make_network(layers, [form] * COUNT, shared=False)
    run_layers(network, layers, tmp_path, cache, "host", "gcc", (*SANITIZED, *LEVELS[level]))
