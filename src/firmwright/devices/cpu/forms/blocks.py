"""Blocks of channels that lie in a vector."""

from __future__ import annotations

import numpy as np

from firmwright.ir.layer import Array


def fill_lanes(channels: int, lanes: int) -> Array:
    """Return the channels of blocks of ``lanes``, (blocks, lanes).

    The last block overlaps the one before it where the channels are no multiple. Where there are
    fewer channels than lanes, the block has indices beyond them.
    """
    last = max(channels - lanes, 0)
    starts = np.array([*range(0, last, lanes), last])
    filled: Array = starts[:, None] + np.arange(lanes)
    return filled
