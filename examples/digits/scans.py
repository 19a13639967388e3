"""The data: scikit-learn's scans of handwritten digits, split by the example's seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from int8_onnx import Floats
from numpy.typing import NDArray
from sklearn.datasets import load_digits

SEED = 2026
TEST_IMAGES = 449  # a quarter of the 1,797 images
CALIBRATION_IMAGES = 128


@dataclass(frozen=True)
class Scans:
    """Return images as float32 (n, 1, 8, 8) in 0..1, and the digit of each."""

    images: Floats
    labels: NDArray[np.int64]


def load_split() -> tuple[Scans, Scans, Scans]:
    """Return the scans in the order of the seed: for training, for calibration, for the test."""
    data = load_digits()
    images = (data.images / 16).astype(np.float32)[:, None]
    order = np.random.default_rng(SEED).permutation(len(images))
    test, calibration, training = np.split(order, [TEST_IMAGES, TEST_IMAGES + CALIBRATION_IMAGES])
    scans = [Scans(images[part], data.target[part]) for part in (training, calibration, test)]
    return scans[0], scans[1], scans[2]
