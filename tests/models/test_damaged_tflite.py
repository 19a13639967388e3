"""TFLite models with missing or changed bytes are rejected with a message, or compute a result."""

from __future__ import annotations

import random

import pytest

from firmwright.errors import UserError
from tests.models.test_bad_tflite import convolved
from tests.networks.firmware import lowered


def test_truncated_anywhere() -> None:
    data = convolved()
    for end in range(8, len(data), 10):
        with pytest.raises(UserError, match=r"^test model: "):
            lowered(data[:end])


def test_damaged_bytes_never_get_through_as_a_traceback() -> None:
    generator = random.Random(4)
    data = convolved()
    refused = 0
    for _ in range(60):
        damaged = bytearray(data)
        for _ in range(generator.choice([1, 2, 4])):
            damaged[generator.randrange(8, len(data))] = generator.choice([0, 255, 127, 128, 8])
        try:
            lowered(bytes(damaged))
        except UserError:
            refused += 1
    assert refused > 20
