"""Templates of a custom board can use only the values that are passed to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pytest

from firmwright.codegen.templates import confine, make_environment


@pytest.mark.parametrize(
    "text",
    [
        "{{ cycler.__init__.__globals__.os.system('exit 1') }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ names.append('b') }}",
        "{{ filled.tofile('made') }}",
        "{{ filled.dump('made') }}",
        "{{ place.write_text('made') }}",
        "{{ place.unlink() }}",
    ],
)
def test_a_confined_template_reaches_no_python(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "kept"
    place.touch()
    values: dict[str, Any] = {"names": ["a"], "filled": np.zeros(2), "place": place}
    with pytest.raises(jinja2.exceptions.SecurityError):
        confine(make_environment()).from_string(text).render(values)
    assert [*tmp_path.iterdir()] == [place]


def test_a_confined_template_has_filters_templates_and_values() -> None:
    env = confine(make_environment())
    text = "{{ [2, 3] | shape }} {{ place.name }}{% include 'runtime/fw_hal.h.j2' %}"
    assert env.from_string(text).render(place=Path("x/y")).startswith("2x3 y/*")
