"""Convolutions that the accelerator cannot run, as convolutions of the same sums that it can.

Its kernels are odd and of at most 7, and it pads columns by half of them on both sides. Weights of
zero make other kernels look so; no result changes, because a weight of zero adds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from firmwright.devices.soma_dory.accelerator_layer import AcceleratorLayer
from firmwright.ir.layer import LayerKind

KERNELS = (1, 3, 5, 7)

COLUMNS = 1


@dataclass(frozen=True)
class LayerForm:
    """A layer to run in place of another, what to make of that one's input before, and after.

    ``reads_unpadded``: it reads what the operator in front of it pads. ``space_to_depth``: pairs of
    rows and columns have become channels, see :func:`use_space_to_depth`. ``surplus``: so many
    columns come before those of the results.
    """

    layer: AcceleratorLayer
    reads_unpadded: bool = False
    space_to_depth: bool = False
    surplus: int = 0


@dataclass(frozen=True)
class Window:
    """A kernel along one axis that holds a layer's, from its element ``place`` on.

    ``before`` and ``after`` are its padding, ``surplus`` the results that come before the layer's.
    """

    kernel: int
    place: int
    before: int
    after: int
    surplus: int = 0


def generate_forms(
    layer: AcceleratorLayer, padded: tuple[int, int, int, int] | None = None
) -> Iterator[LayerForm]:
    """Yield the forms of a convolution that give the same sums, the cheapest first.

    ``padded`` are the zeros (top, left, bottom, right) that an operator in front of it appends to
    its input, None where there is no such operator.
    """
    starts = [LayerForm(layer)]
    if padded is not None:
        starts.insert(0, LayerForm(absorb_padding(layer, padded), reads_unpadded=True))
        yield starts[0]
    wider = [form for form in map(widen_kernel, starts) if form is not None]
    yield from sorted(wider, key=lambda form: form.surplus)
    for start in starts:
        paired = use_space_to_depth(start.layer)
        if paired is not None:
            yield replace(start, layer=paired, space_to_depth=True)


def absorb_padding(layer: AcceleratorLayer, padded: tuple[int, int, int, int]) -> AcceleratorLayer:
    """Return the layer on the input without ``padded``, which becomes padding of its own."""
    top, left, bottom, right = padded
    own = layer.padding
    return replace(
        layer,
        height=layer.height - top - bottom,
        width=layer.width - left - right,
        padding=(own[0] + top, own[1] + left, own[2] + bottom, own[3] + right),
    )


def widen_kernel(form: LayerForm) -> LayerForm | None:
    """Return a form whose kernel is odd, with half of it as padding on the left; None if none.

    The kernel keeps its place over the image: TFLite's SAME of a kernel of 3 columns with stride 2
    on an even image pads (0, 1), which is a kernel of 5 columns with padding 2 whose first two
    columns are zeros. Without padding, 3 columns are the last of 5, too. 5 of them are no last ones
    of 7; they begin two results early, which are ``surplus``.
    """
    layer = form.layer
    rows, columns = find_window(layer, 0), find_window(layer, COLUMNS)
    if layer.weights is None or rows is None or columns is None:
        return None
    weights = np.zeros((*layer.weights.shape[:2], rows.kernel, columns.kernel), "int8")
    height, width = layer.kernel
    weights[:, :, rows.place : rows.place + height, columns.place : columns.place + width] = (
        layer.weights
    )
    wider = replace(
        layer,
        weights=weights,
        out_width=layer.out_width + columns.surplus,
        kernel=(rows.kernel, columns.kernel),
        padding=(rows.before, columns.before, rows.after, columns.after),
    )
    return replace(form, layer=wider, surplus=columns.surplus)


def find_window(layer: AcceleratorLayer, axis: int) -> Window | None:
    """Return the smallest odd kernel along an axis that holds the layer's, without surplus if any.

    Rows may be padded by up to half of the kernel at each end, columns by half at the first.
    """
    size = (layer.height, layer.width)[axis]
    results = (layer.out_height, layer.out_width)[axis]
    stride = layer.strides[axis]
    choices = [(kernel, 0) for kernel in KERNELS]
    if axis == COLUMNS:
        choices += [(k, surplus) for k in KERNELS for surplus in range(1, k)]
    for kernel, surplus in choices:
        half, start = kernel // 2, layer.padding[axis] + surplus * stride
        for place in [half - start] if axis == COLUMNS else range(half - start + 1):
            after = (surplus + results - 1) * stride + kernel - size - start - place
            if 0 <= place <= kernel - layer.kernel[axis] and after <= half:
                return Window(kernel, place, start + place, max(after, 0), surplus)
    return None


def use_space_to_depth(layer: AcceleratorLayer) -> AcceleratorLayer | None:
    """Return a layer of stride 1 on an image of half the size, or None if there is none.

    Pairs of rows and of columns of the image become channels: channel 4·c + 2·i + j of the new
    image is row i and column j of each pair, of channel c. A kernel of stride 2 then moves by one
    pair, and is half as large: DS-CNN's 10 x 4 with padding (4, 5), (1, 1) becomes 5 x 3.
    """
    if layer.weights is None or layer.kind is not LayerKind.CONV2D or layer.strides != (2, 2):
        return None
    reach = reach_in_pairs(layer, 0), reach_in_pairs(layer, 1)
    kernel = [2 * r + 1 for r in reach]
    rows, columns = count_pairs(layer, 0), count_pairs(layer, 1)
    behind = layer.out_height - rows + reach[0], layer.out_width - columns + reach[1]
    if not set(kernel) <= set(KERNELS) or min(behind) < 0:
        return None
    # Over single rows and columns the kernel is twice as large; the layer's has its place there.
    outputs, channels = layer.weights.shape[:2]
    single = np.zeros((outputs, channels, 2 * kernel[0], 2 * kernel[1]), "int8")
    row, column = (2 * reach[axis] - layer.padding[axis] for axis in (0, 1))
    single[:, :, row : row + layer.kernel[0], column : column + layer.kernel[1]] = layer.weights
    pairs = single.reshape(outputs, channels, kernel[0], 2, kernel[1], 2)
    weights = pairs.transpose(0, 1, 3, 5, 2, 4).reshape(outputs, 4 * channels, *kernel)
    return replace(
        layer,
        channels=4 * channels,
        height=rows,
        width=columns,
        kernel=(kernel[0], kernel[1]),
        strides=(1, 1),
        padding=(*reach, *behind),
        weights=np.ascontiguousarray(weights),
    )


def count_pairs(layer: AcceleratorLayer, axis: int) -> int:
    """Return the pairs of the image along an axis, with pairs of zeros if results are more."""
    size = (layer.height, layer.width)[axis]
    return max(-(-size // 2), (layer.out_height, layer.out_width)[axis])


def reach_in_pairs(layer: AcceleratorLayer, axis: int) -> int:
    """Return how many pairs the kernel reaches to either side of a result's own pair."""
    before = layer.padding[axis]
    return max(-(-before // 2), (layer.kernel[axis] - 1 - before) // 2)
