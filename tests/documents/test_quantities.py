"""Frequencies and times, as recipes write them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from firmwright.documents.quantities import parse_frequency


def test_frequencies_are_at_least_one_hertz() -> None:
    assert [parse_frequency(text) for text in ("1Hz", "0.5 kHz", "64 MHz")] == [1, 500, 64_000_000]
    for text in ("0MHz", "0.4Hz"):
        with pytest.raises(ValueError, match=f"at least 1 Hz, found '{text}'"):
            parse_frequency(text)


@pytest.mark.parametrize("schema", ["recipes/recipe", "toolchains/platform"])
def test_schemas_accept_no_clock_below_one_hertz(schema: str) -> None:
    pattern = json.loads(Path(f"{schema}.schema.json").read_text())["properties"]["clock"][
        "pattern"
    ]
    for text in ("0 Hz", "0.9 Hz", "00.4Hz", "0.000999 kHz", "0.000000 MHz"):
        assert not re.search(pattern, text), text
    for text in ("1 Hz", "10.5 Hz", "0.001 kHz", "0.000001 MHz", "64 MHz"):
        assert re.search(pattern, text), text
        assert parse_frequency(text) >= 1
