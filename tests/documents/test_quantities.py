"""Frequencies and times, as recipes write them."""

from __future__ import annotations

import pytest

from firmwright.documents.quantities import parse_frequency


def test_frequencies_are_at_least_one_hertz() -> None:
    assert [parse_frequency(text) for text in ("1Hz", "0.5 kHz", "64 MHz")] == [1, 500, 64_000_000]
    for text in ("0MHz", "0.4Hz"):
        with pytest.raises(ValueError, match=f"at least 1 Hz, found '{text}'"):
            parse_frequency(text)
