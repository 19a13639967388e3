"""The reciprocal of a square root as a fixed-point multiplier, as TFLite's kernels compute it."""

from __future__ import annotations

from firmwright.lowering.kernels.fixed_point import rounding_multiply_high

HALF_SQRT_2 = 1518500250
"""sqrt(2) / 2 in Q0.31."""
ONE = 2**28
"""1 in Q3.28."""


def inverse_sqrt(x: int) -> tuple[int, int]:
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
        cube = multiply_q3_28(multiply_q3_28(root, root), root)
        root = saturating_shift_left(
            rounding_multiply_high(ONE + ONE // 2, root) - rounding_multiply_high(half, cube), 3
        )
    mantissa = rounding_multiply_high(root, HALF_SQRT_2)
    if right_shift < 0:
        mantissa, right_shift = mantissa << -right_shift, 0
    return mantissa, -right_shift


def multiply_q3_28(x: int, y: int) -> int:
    """Multiply two numbers in Q3.28."""
    return saturating_shift_left(rounding_multiply_high(x, y), 3)


def saturating_shift_left(x: int, bits: int) -> int:
    return max(-(2**31), min(2**31 - 1, x << bits))
