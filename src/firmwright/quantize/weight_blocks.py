"""Chooses the factors of blocks of int4 weights.

A block has the weights of some adjacent input channels, for one output channel and one position of
the kernel. A weight is the scale of its output channel times the factor of its block times an
integer of 4 bits. Factors are integers, so the products of factors and integers are weights of 8
bits: a layer adds all products in int32, as without blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.errors import UserError

Array = npt.NDArray[Any]

TYPE = "int4"
LIMITS = (-8, 7)
LARGEST = 15
"""The maximum factor. 15 times -8 fits 8 bits."""

LARGEST_STEPS = 112
"""The steps of the largest weight of a channel, so that its block rounds to 7 or 8 times 15."""


def check_blocks(layer: str, channels: int, block: int) -> None:
    """Raise UserError if the input channels of a layer are not a multiple of the block."""
    if channels % block:
        raise UserError(
            f"quantize: block: layer '{layer}' has {channels} input channels, which are not a "
            f"multiple of {block}; choose a divisor of {channels}, or set other weights for this "
            "layer in `layers`"
        )


def choose_factors(steps: Array, block: int, axis: int) -> Array:
    """Return the factor of each weight, with the shape of ``steps``.

    ``steps`` are the weights divided by the scales of their channels. ``axis`` has the input
    channels, a multiple of ``block``. Each factor minimizes the squared error of its block.
    """
    moved = np.moveaxis(steps, axis, -1)
    blocks = moved.reshape(*moved.shape[:-1], -1, block)
    errors = [
        np.square(blocks - round_by_factors(blocks, factor)).sum(-1)
        for factor in range(1, LARGEST + 1)
    ]
    factors = 1 + np.argmin(errors, 0)
    spread: Array = np.repeat(factors, block, axis=-1).reshape(moved.shape)
    return np.moveaxis(spread, -1, axis)


def round_by_factors(steps: Array, factors: Array | int) -> Array:
    """Return the nearest multiples of the factors whose quotients have 4 bits."""
    rounded: Array = np.clip(np.rint(steps / factors), *LIMITS) * factors
    return rounded
