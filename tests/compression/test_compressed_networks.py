"""Networks with compressed constants compute the same results, under sanitizers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from firmwright.verify.protocol import decode_outputs
from tests.compression.networks import compress
from tests.networks.firmware import SANITIZED, executed, lowered, random_samples
from tests.networks.tflite_models import ModelBuilder
from tests.networks.tflite_operators import SAME, shaped
from tests.networks.tflite_weighted import Weighted, add_weighted, windows

KINDS = (
    Weighted("CONV_2D", (1, 5, 5, 6), (9, 3, 3, 6), windows(SAME)),
    Weighted(
        "DEPTHWISE_CONV_2D", (1, 5, 5, 28), (1, 3, 3, 28), windows(SAME) | {"depthMultiplier": 1}
    ),
    Weighted("FULLY_CONNECTED", (1, 60), (8, 60), {}),
)


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_layers_of_4_bits_decode_their_weights(kind: Weighted, tmp_path: Path) -> None:
    builder = ModelBuilder()
    # Forms store so few weights as bytes.
    add_weighted(builder, kind, "int8", "int4", "int32", np.random.default_rng(6))
    data = shaped(builder)
    network, samples = lowered(data), random_samples(data, 2, seed=1)
    small = compress(network)
    before, after = (sum(a.nbytes for a in n.weights.values()) for n in (network, small))
    assert after < 0.7 * before
    results = [
        executed(each, samples, tmp_path / name, SANITIZED)
        for name, each in (("plain", network), ("small", small))
    ]
    decoded = [
        decode_outputs(r.console, network.interface.outputs, 2, r.exit_code) for r in results
    ]
    for plain, packed in zip(*decoded, strict=True):
        for left, right in zip(plain, packed, strict=True):
            np.testing.assert_array_equal(left, right)
