"""Samples joined to batches, and apart again."""

from __future__ import annotations

import numpy as np

from firmwright.verify.batches import joined_outputs, joined_samples, separated_outputs


def test_batches_are_joined_and_separated() -> None:
    samples = [{"x": np.full((1, 2), i)} for i in range(4)]
    assert [b["x"].tolist() for b in joined_samples(samples, 2)] == [
        [[0, 0], [1, 1]],
        [[2, 2], [3, 3]],
    ]
    outputs = [[np.full((2, 1), i), np.array(7)] for i in range(4)]
    joined = joined_outputs(outputs, 2, (1, None))
    assert joined[1][0].tolist() == [[2, 3], [2, 3]]
    for found, wanted in zip(separated_outputs(joined, 2, (1, None)), outputs, strict=True):
        assert [f.tolist() for f in found] == [w.tolist() for w in wanted]


def test_single_samples_may_be_scalars() -> None:
    samples = [{"x": np.array(1.5)}, {"x": np.array(2.5)}]
    assert joined_samples(samples, 1) == samples
    outputs = [[np.array(3)], [np.array(4)]]
    assert joined_outputs(outputs, 1, (0,)) == outputs
    assert separated_outputs(outputs, 1, (0,)) == outputs
