"""Rewrites convolutions that the accelerator cannot run as convolutions with equal sums.

The accelerator's kernels are odd and at most 7. The accelerator pads columns by half of the kernel
on both sides. Weights of zero, which add 0 to each result, extend other kernels to such a form.
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
    """A layer that replaces another layer, and the changes of the other layer's input and output.

    If ``reads_unpadded`` is true, the layer reads the tensor that the preceding operator pads. If
    ``space_to_depth`` is true, pairs of rows and columns are channels, see
    :func:`use_space_to_depth`. ``surplus`` is the number of columns before the columns of the
    results.
    """

    layer: AcceleratorLayer
    reads_unpadded: bool = False
    space_to_depth: bool = False
    surplus: int = 0


@dataclass(frozen=True)
class Window:
    """A kernel along one axis that contains the layer's kernel, starting at element ``offset``.

    ``before`` and ``after`` are the window's padding. ``surplus`` is the number of results before
    the layer's results.
    """

    kernel: int
    offset: int
    before: int
    after: int
    surplus: int = 0


def generate_forms(
    layer: AcceleratorLayer, padded: tuple[int, int, int, int] | None = None
) -> Iterator[LayerForm]:
    """Yield the forms of a convolution that compute equal sums, the cheapest first.

    ``padded`` are the zeros (top, left, bottom, right) that a preceding operator adds to the
    convolution's input. ``padded`` is None if no operator pads the input.
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
    """Return the layer on the input without ``padded``, which becomes part of the layer's
    padding."""
    top, left, bottom, right = padded
    padding = layer.padding
    return replace(
        layer,
        height=layer.height - top - bottom,
        width=layer.width - left - right,
        padding=(padding[0] + top, padding[1] + left, padding[2] + bottom, padding[3] + right),
    )


def widen_kernel(form: LayerForm) -> LayerForm | None:
    """Return a form whose kernel is odd, with half of the kernel as padding on the left, or None.

    The kernel keeps its position over the image. For example, TFLite's SAME pads (0, 1) for a
    kernel of 3 columns with stride 2 on an even image. A kernel of 5 columns with padding 2
    computes equal sums if its first two columns are zeros. Without padding, a kernel of 3 columns
    becomes the last columns of a kernel of 5. A kernel of 5 columns cannot become the last columns
    of a kernel of 7. With padding 2, its results begin two columns early, and these two columns are
    the ``surplus``.
    """
    layer = form.layer
    rows, columns = find_window(layer, 0), find_window(layer, COLUMNS)
    if layer.weights is None or rows is None or columns is None:
        return None
    weights = np.zeros((*layer.weights.shape[:2], rows.kernel, columns.kernel), "int8")
    height, width = layer.kernel
    weights[:, :, rows.offset : rows.offset + height, columns.offset : columns.offset + width] = (
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
    """Return the smallest odd kernel along an axis that contains the layer's kernel, or None.

    A kernel without surplus has priority. Rows may be padded by up to half of the kernel at each
    end. Columns must be padded by half of the kernel at the first end.
    """
    size = (layer.height, layer.width)[axis]
    results = (layer.out_height, layer.out_width)[axis]
    stride = layer.strides[axis]
    choices = [(kernel, 0) for kernel in KERNELS]
    if axis == COLUMNS:
        choices += [(k, surplus) for k in KERNELS for surplus in range(1, k)]
    for kernel, surplus in choices:
        half, start = kernel // 2, layer.padding[axis] + surplus * stride
        for offset in [half - start] if axis == COLUMNS else range(half - start + 1):
            after = (surplus + results - 1) * stride + kernel - size - start - offset
            if 0 <= offset <= kernel - layer.kernel[axis] and after <= half:
                return Window(kernel, offset, start + offset, max(after, 0), surplus)
    return None


def use_space_to_depth(layer: AcceleratorLayer) -> AcceleratorLayer | None:
    """Return a layer of stride 1 on an image of half the size, or None if impossible.

    Pairs of rows and pairs of columns of the image become channels. Channel 4·c + 2·i + j of the
    new image is channel c, row i and column j of each pair. A kernel of stride 2 then moves by one
    pair, and has half the size. For example, DS-CNN's 10 x 4 kernel with padding (4, 5), (1, 1)
    becomes 5 x 3.
    """
    if layer.weights is None or layer.kind is not LayerKind.CONV2D or layer.strides != (2, 2):
        return None
    reach = reach_in_pairs(layer, 0), reach_in_pairs(layer, 1)
    kernel = [2 * r + 1 for r in reach]
    rows, columns = count_pairs(layer, 0), count_pairs(layer, 1)
    behind = layer.out_height - rows + reach[0], layer.out_width - columns + reach[1]
    if not set(kernel) <= set(KERNELS) or min(behind) < 0:
        return None
    # In single rows and columns, the kernel is twice as large. It contains the layer's kernel.
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
    """Return the number of pairs along an axis, including pairs of zeros that results need."""
    size = (layer.height, layer.width)[axis]
    return max(-(-size // 2), (layer.out_height, layer.out_width)[axis])


def reach_in_pairs(layer: AcceleratorLayer, axis: int) -> int:
    """Return the number of pairs that the kernel reads on each side of a result's pair."""
    before = layer.padding[axis]
    return max(-(-before // 2), (layer.kernel[axis] - 1 - before) // 2)
