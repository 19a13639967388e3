"""Samples are joined to batches and separated again."""

from __future__ import annotations

import numpy as np

from firmwright.verify.batches import join_outputs, join_samples, split_outputs


def test_batches_are_joined_and_separated() -> None:
    samples = [{"x": np.full((1, 2), i)} for i in range(4)]
    assert [b["x"].tolist() for b in join_samples(samples, 2)] == [
        [[0, 0], [1, 1]],
        [[2, 2], [3, 3]],
    ]
    outputs = [[np.full((2, 1), i), np.array(7)] for i in range(4)]
    joined = join_outputs(outputs, 2, (1, None))
    assert joined[1][0].tolist() == [[2, 3], [2, 3]]
    for found, wanted in zip(split_outputs(joined, 2, (1, None)), outputs, strict=True):
        assert [f.tolist() for f in found] == [w.tolist() for w in wanted]


def test_single_samples_may_be_scalars() -> None:
    samples = [{"x": np.array(1.5)}, {"x": np.array(2.5)}]
    assert join_samples(samples, 1) == samples
    outputs = [[np.array(3)], [np.array(4)]]
    assert join_outputs(outputs, 1, (0,)) == outputs
    assert split_outputs(outputs, 1, (0,)) == outputs
