"""Compares a tensor with a tensor of another network: signal-to-noise ratio and cosine."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, log10
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
LEAST_RATIO = 1e-30
"""The minimum ratio, -300 dB. A tensor that is not finite has this ratio."""


@dataclass(frozen=True, slots=True)
class SignalQuality:
    """The similarity of a tensor to its reference, over all samples.

    ``snr`` is 10 · log10 of the reference's energy divided by the energy of the difference, in dB.
    ``snr`` is None if there is no difference. ``cosine`` is the mean over samples.
    """

    snr: float | None
    cosine: float


@dataclass
class SignalStatistics:
    """Sums over samples for one tensor and its reference."""

    energy: float = 0.0
    noise: float = 0.0
    cosines: list[float] = field(default_factory=list)

    def add(self, sample: Array, wanted: Array) -> None:
        """Add one sample of the tensor. ``wanted`` is the sample of the reference."""
        a, b = (v.astype("float64").reshape(-1) for v in (sample, wanted))
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            self.noise = inf
            self.cosines.append(0.0)
            return
        self.energy += float(b @ b)
        self.noise += float((a - b) @ (a - b))
        lengths = float(np.sqrt((a @ a) * (b @ b)))
        self.cosines.append(float(a @ b) / lengths if lengths else float(not (a - b).any()))

    @property
    def quality(self) -> SignalQuality:
        """Return the rounded quality, because the last digits differ between processors."""
        cosine = round(float(np.mean(self.cosines)), 6)
        if not self.noise:
            return SignalQuality(None, cosine)
        ratio = max(self.energy / self.noise, LEAST_RATIO)
        return SignalQuality(round(10 * log10(ratio), 3), cosine)
