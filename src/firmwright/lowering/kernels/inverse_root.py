"""The reciprocal of a square root as a fixed-point multiplier, as TFLite's kernels compute it."""

from __future__ import annotations

from firmwright.lowering.fixed_point import high_product

HALF_ROOT_OF_TWO = 1518500250
"""sqrt(2) / 2 in Q0.31."""
ONE = 2**28
"""1 in Q3.28."""


def inverse_root(x: int) -> tuple[int, int]:
    """Return mantissa and shift of 1 / sqrt(x) for x > 0.

    Five Newton steps in Q3.28. Source: tensorflow/lite/kernels/internal/common.h,
    GetInvSqrtQuantizedMultiplierExp.
    """
    if x <= 1:
        return 2**31 - 1, 0
    right_shift = 11
    while x >= 2**29:
        x //= 4
        right_shift += 1
    pairs = (32 - x.bit_length() - 1) // 2 - 1
    right_shift -= pairs
    fraction = (x << 2 * pairs) >> 1
    half = (fraction + 1) >> 1
    root = ONE
    for _ in range(5):
        cube = product(product(root, root), root)
        root = saturated_rescale(high_product(ONE + ONE // 2, root) - high_product(half, cube), 3)
    mantissa = high_product(root, HALF_ROOT_OF_TWO)
    if right_shift < 0:
        mantissa, right_shift = mantissa << -right_shift, 0
    return mantissa, -right_shift


def product(x: int, y: int) -> int:
    """Multiply two numbers in Q3.28."""
    return saturated_rescale(high_product(x, y), 3)


def saturated_rescale(x: int, bits: int) -> int:
    return max(-(2**31), min(2**31 - 1, x << bits))
