"""Computes convolutions on the C7x's matrix unit, with a function of TI's library MMALIB.

TI's firmware for modules exports ``mmalib_conv2d_i8``. TI's port of TVM publishes its arguments,
its rules and its arithmetic. A result is ((sum + bias) * scale + half) >> shift, clamped to int8.
Each channel has a scale of 1 to 127 and a shift of 0 to 31. Tensors have their channels first. The
device's option ``mmalib`` selects the function.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from math import ceil, gcd

import numpy as np

from firmwright.devices.c7x.cost import Core, add_transfer
from firmwright.devices.c7x.function_names import EXACT, MMALIB_FORM, MMALIB_HEADER
from firmwright.devices.c7x.strips import LARGEST_ROW, PIECE_BYTES, align
from firmwright.devices.cpu.forms.form import Condition, Form, Packing
from firmwright.devices.cpu.forms.layer_numbers import describe_geometry
from firmwright.devices.cpu.forms.requantize import (
    SUM_LIMIT,
    bound_sums,
    find_shifted_begins,
    fits_integers,
    make_requantization,
)
from firmwright.ir.kernels import Cycles
from firmwright.ir.layer import Array, Layer, LayerRounding
from firmwright.lowering.kernels.float_steps import FloatScaling, are_usual, find_begins

LARGEST_SCALE, LARGEST_SHIFT = 127, 31

CHANNELS = 64
"""The number of output channels is a multiple, as TI's compiler demands for int8."""

MOST_CHANNELS = 1024
"""The maximum number of output channels that TI tested in one call."""

SMALLEST_SUM = 64
"""The minimum number of products in a sum; TI's networks have no shorter sums."""

GUARD = 128
"""The minimum bytes before an input in local memory, because the engine reads before its start."""

MEASURED_MACS, MEASURED_CYCLES = 56 * 56 * 64 * 64 * 9, 477_000
"""The work of the layer that TI measured on an AM67A: 64 channels of 56x56 pixels, 3x3, from L2."""

CALL_CYCLES = 5_000
"""Assumed cycles of an additional call, as TI states for the start of a pooling."""

SENTENCE = (
    "The DMA moves rows of channels to local memory, and MMALIB multiplies them on the matrix unit."
)


@dataclass(frozen=True, eq=False)
class Calls:
    """A convolution split into calls: rows of the output, and parts of the output channels.

    Local memory contains a call's input, weights and results. ``chunk`` is the number of channels
    of a call, ``rows`` the number of output rows. Both are 0 if no call fits local memory.
    """

    layer: Layer
    core: Core

    @property
    def is_bordered(self) -> bool:
        """Return whether local memory contains the padding, because MMALIB's padding is 0."""
        return self.layer.input_zero_point != 0 and any(self.layer.padding)

    @property
    def guard(self) -> int:
        return align(max(GUARD, self.layer.padding[0] * self.layer.width))

    @property
    def width(self) -> int:
        """Return the columns of a call's input."""
        layer = self.layer
        columns = (layer.out_width - 1) * layer.strides[1] + layer.kernel[1]
        return columns if self.is_bordered else layer.width

    @property
    def out_width(self) -> int:
        """Return the columns of a call's results.

        Without a stride, MMALIB needs as many columns of results as of input. The additional
        columns are not part of the output.
        """
        widened = self.is_bordered and self.layer.strides[0] == 1
        return self.width if widened else self.layer.out_width

    @cached_property
    def chunk(self) -> int:
        """Return the most channels of a call that leave half of the local memory for rows.

        With strides above 1, a call computes as many channels as the matrix unit has columns.
        """
        unit = self.core.vector
        most = unit if self.layer.strides[0] > 1 else min(self.layer.out_channels, MOST_CHANNELS)
        fitting = self.core.local_memory // 2 // self.layer.taps
        return min(most, max(fitting // unit, 1) * unit)

    def input_rows(self, rows: int) -> int:
        return (rows - 1) * self.layer.strides[0] + self.layer.kernel[0]

    def input_bytes(self, rows: int) -> int:
        height = self.input_rows(rows)
        if not self.is_bordered:
            height = min(height, self.layer.height)
        return align(self.layer.channels * height * self.width)

    def output_bytes(self, rows: int) -> int:
        return align(self.chunk * rows * self.out_width)

    @cached_property
    def rows(self) -> int:
        used = self.guard + align(self.chunk * self.layer.taps)
        fitting = [
            rows
            for rows in range(1, self.layer.out_height + 1)
            if used + self.input_bytes(rows) + self.output_bytes(rows) <= self.core.local_memory
            and max(self.input_rows(rows) * self.width, rows * self.out_width) <= LARGEST_ROW
        ]
        height = self.layer.out_height
        return ceil(height / ceil(height / max(fitting))) if fitting else 0

    @property
    def count(self) -> int:
        layer = self.layer
        return ceil(layer.out_height / self.rows) * ceil(layer.out_channels / self.chunk)

    @property
    def keeps_rules(self) -> bool:
        """Return whether MMALIB accepts the shapes of all calls, by TI's published checks."""
        layer = self.layer
        (stride, _), (height, width) = layer.strides, layer.kernel
        top, left, bottom, right = layer.padding
        if height <= max(top, bottom) or width <= max(left, right):
            return False
        if self.is_bordered:
            return True
        for first in range(0, layer.out_height, max(self.rows, 1)):
            rows = min(self.rows, layer.out_height - first)
            begin, end = first * stride - top, (first + rows - 1) * stride + height - top
            above, below = max(-begin, 0), max(end - layer.height, 0)
            inside = end - begin - above - below
            if stride > 1:
                same = above == 0 or below in (0, (height - 1) // 2)
                if not same or (layer.kernel == (1, 1) and left != right):
                    return False
            elif (inside - height + 1) * layer.width - width + 1 > rows * layer.out_width:
                return False
        return True


@dataclass(frozen=True, eq=False)
class Scales:
    """The numbers of MMALIB for each channel, int64.

    ``differences`` are the largest differences between MMALIB's results and the layer's results.
    """

    scales: Array
    shifts: Array
    biases: Array
    differences: Array

    @property
    def fits(self) -> bool:
        """Return whether all biases fit int32."""
        return bool(np.abs(self.biases).max() < 2**30)


@lru_cache(maxsize=4)
def find_scales(layer: Layer) -> Scales:
    """Return the numbers whose results differ least from the layer's results.

    The result is cached because several parts of the build need it.
    """
    limits = bound_sums(layer)
    begins = find_result_begins(layer, limits)
    results = np.arange(layer.low + 1, layer.high + 1)
    choices = [
        min(
            (
                try_scale(scale, shift, row, results, int(limit))
                for scale, shift in list_scales(factor)
            ),
            key=lambda numbers: numbers[-1],
        )
        for factor, row, limit in zip(find_factors(layer), begins, limits, strict=True)
    ]
    scales, shifts, moves, differences = np.array(choices, "int64").T
    return Scales(scales, shifts, layer.folded_bias + moves, differences)


def find_factors(layer: Layer) -> Array:
    """Return the real factors of the sums, as float64."""
    scaling = layer.scaling
    if scaling.has_offsets:
        return scaling.factors.astype("float64")
    factors: Array = np.ldexp(scaling.mantissas.astype("float64"), -31 - scaling.shifts)
    return factors


def list_scales(factor: float) -> list[tuple[int, int]]:
    """Return the pairs (scale, shift) around a factor, without common powers of two."""
    shift = min(int(np.floor(np.log2(LARGEST_SCALE / factor))), LARGEST_SHIFT)
    pairs = []
    for scale in {int(factor * 2.0**shift), int(np.ceil(factor * 2.0**shift))}:
        reduced, less = max(min(scale, LARGEST_SCALE), 1), shift
        while reduced % 2 == 0 and less > 0:
            reduced, less = reduced // 2, less - 1
        pairs.append((reduced, less))
    return sorted(pairs)


def try_scale(
    scale: int, shift: int, begins: Array, results: Array, limit: int
) -> tuple[int, int, int, int]:
    """Return a scale, a shift, the best addition to the bias, and the largest difference.

    ``begins`` has the sums at which the layer's ``results`` begin.
    """
    half = (1 << shift) >> 1
    ends = -((half - (results.astype("int64") << shift)) // scale)
    inside = (begins > -limit) & (begins <= limit)
    move = int(np.median((ends - begins)[inside] if inside.any() else ends - begins))
    moved = np.clip(ends - move, -limit, limit + 1)
    # Results are constant between two of these sums.
    sums = np.unique(np.concatenate([begins, moved, [-limit]]))
    sums = sums[sums <= limit]
    counts = [np.searchsorted(steps, sums, "right") for steps in (begins, moved)]
    return scale, shift, move, int(np.abs(counts[0] - counts[1]).max())


def find_result_begins(layer: Layer, limits: Array) -> Array:
    """Return the sums from which results are at least low + 1, low + 2 … high: (O, high - low)."""
    if layer.scaling.rounding is LayerRounding.SHIFT:
        return find_shifted_begins(layer, limits)
    if layer.scaling.rounding is LayerRounding.FLOAT:
        factors = layer.scaling.factors
        steps = FloatScaling(factors, limits, layer.zero_point, layer.low, layer.high)
        return find_begins(steps)
    results = np.arange(1, layer.high - layer.low + 1)
    below = np.repeat(-limits[:, None] - 1, results.size, axis=1)
    reached = np.repeat(limits[:, None] + 1, results.size, axis=1)
    while (reached - below > 1).any():
        middle = (below + reached) >> 1
        reaches = requantize(layer, middle) >= results
        reached = np.where(reaches, middle, reached)
        below = np.where(reaches, below, middle)
    clipped: Array = np.maximum(reached, -limits[:, None])
    return clipped


def requantize(layer: Layer, sums: Array) -> Array:
    """Return the results of sums (O, …) above the lowest result, before they are clamped."""
    numbers = make_requantization(layer)
    high = (4 * sums * numbers.multipliers[:, None]) >> 32
    if not numbers.one_shift:
        high = (high + 1) >> 1
        high += high >> 63
    shifted: Array = (high + numbers.offsets[:, None]) >> numbers.shifts[:, None]
    return shifted


def make_matrix_forms(core: Core, mode: str) -> tuple[Form, ...]:
    """Return the form of layers with channels first, for a value of the option ``mmalib``."""
    rules = (
        Condition("sums below 2^29, or 2^24 if they are scaled in float32", has_steps),
        Condition("int8 inputs and results", lambda n: {n.input_dtype, n.output_dtype} == {"int8"}),
        Condition(
            "one sample, equal strides, and a kernel without gaps",
            lambda n: n.batch == 1 and n.strides[0] == n.strides[1] and n.dilation == (1, 1),
        ),
        Condition(
            f"output channels in multiples of {CHANNELS}, and sums of {SMALLEST_SUM} products",
            lambda n: n.out_channels % CHANNELS == 0 and n.taps >= SMALLEST_SUM,
        ),
        Condition(
            f"a row and its weights in {core.local_memory:,} bytes",
            lambda n: Calls(n, core).rows > 0,
        ),
        Condition("padding that MMALIB supports", lambda n: Calls(n, core).keeps_rules),
    )
    return (
        Form(
            name=MMALIB_FORM,
            conditions=(*rules, Condition(describe_exactness(mode), partial(is_usable, mode))),
            pack=partial(pack_calls, core),
            folder="c7x/layers",
            headers=(MMALIB_HEADER, "fw_mmalib.c"),
            sentence=SENTENCE,
        ),
    )


def has_steps(layer: Layer) -> bool:
    """Return whether the sums at which the results change can be found."""
    if layer.scaling.rounding is LayerRounding.SHIFT:
        return layer.largest_sum < SUM_LIMIT and are_usual(layer.scaling.factors)
    return fits_integers(layer)


def describe_exactness(mode: str) -> str:
    exact = "scales of 7 bits with equal results"
    return exact if mode == EXACT else "biases of 31 bits"


def is_usable(mode: str, layer: Layer) -> bool:
    """Return whether a layer that keeps MMALIB's rules has the results that the user wants."""
    if not has_steps(layer):
        return False
    scales = find_scales(layer)
    return scales.fits and (mode != EXACT or not scales.differences.any())


def pack_calls(core: Core, layer: Layer) -> Packing:
    """Return weights as (O, I, height, width), and MMALIB's numbers of each channel."""
    calls, scales = Calls(layer, core), find_scales(layer)
    weights = layer.weights.transpose(0, 3, 1, 2).reshape(-1).astype("int8")
    record = {
        **describe_geometry(layer),
        "height": layer.height,
        "width": layer.width,
        "out_height": layer.out_height,
        "out_width": layer.out_width,
        "right": layer.padding[3],
        "rows": calls.rows,
        "chunk": calls.chunk,
        "guard": calls.guard,
        "strip": calls.input_bytes(calls.rows),
        "held": align(calls.chunk * layer.taps),
        "result": calls.output_bytes(calls.rows),
        "piece": gcd(layer.taps * gcd(calls.chunk, layer.out_channels), PIECE_BYTES),
    }
    arrays = {
        "weights": weights,
        "biases": scales.biases.astype("int32"),
        "scales": scales.scales.astype("uint8"),
        "shifts": scales.shifts.astype("uint8"),
    }
    variant = {
        "clamped": (layer.low, layer.high) != (-128, 127),
        "bordered": calls.is_bordered,
    }
    if calls.is_bordered:
        record |= {
            "border": layer.input_zero_point,
            "strip_width": calls.width,
            "result_width": calls.out_width,
            "inside": min(layer.width, calls.width - layer.padding[1]),
        }
    return Packing(arrays, record, variant)


def estimate_calls(core: Core, layer: Layer) -> Cycles | None:
    """Return the cycles by TI's measurement, which includes the transfers of one call.

    The matrix units of larger cores count as the unit of the AM67A, because TI published no other
    measurement.
    """
    calls = Calls(layer, core)
    macs = layer.out_height * calls.out_width * layer.out_channels * layer.taps
    compute = ceil(macs * MEASURED_CYCLES / MEASURED_MACS) + (calls.count - 1) * CALL_CYCLES
    return add_transfer(core, compute, 0, beside=True)


def describe_differences(layer: Layer) -> str:
    """Return a sentence about the results; '' if they equal the layer's results."""
    most = int(find_scales(layer).differences.max())
    if not most:
        return ""
    plural = "s" if most > 1 else ""
    return f"Results differ by up to {most} step{plural}, because MMALIB's scales have 7 bits."
