"""Describes linear layers. Devices choose, pack and write the forms of these layers."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class LayerKind(str, Enum):
    """The computation of a layer: sums of products, or of two tensors; on integers or on floats."""

    CONV2D = "conv2d"
    ANALOG_CONV2D = "analog_conv2d"
    DEPTHWISE_CONV2D = "depthwise_conv2d"
    GROUPED_CONV2D = "grouped_conv2d"
    DENSE = "dense"
    SUMS = "sums"
    BINARY = "binary"
    ADD = "add"
    MULTIPLY = "multiply"
    WRAPPED_SUM = "wrapped_sum"
    LINE = "line"
    SIGMOID = "sigmoid"
    MATMUL = "matmul"
    SOFTMAX = "softmax"
    FIXED_SOFTMAX = "fixed_softmax"
    RESIZE = "resize"
    FLOAT_CONV2D = "float_conv2d"
    FLOAT_DEPTHWISE_CONV2D = "float_depthwise_conv2d"
    WIDE_CONV2D = "wide_conv2d"
    WIDE_DEPTHWISE_CONV2D = "wide_depthwise_conv2d"
    WIDE_DENSE = "wide_dense"


WIDE_KINDS = {
    LayerKind.CONV2D: LayerKind.WIDE_CONV2D,
    LayerKind.DEPTHWISE_CONV2D: LayerKind.WIDE_DEPTHWISE_CONV2D,
    LayerKind.DENSE: LayerKind.WIDE_DENSE,
}
"""The kinds of layers with 16-bit activations and 8-bit weights, by the kind for 8-bit
activations.
"""


class LayerRounding(str, Enum):
    """The conversion of sums to stored integers.

    ``TWICE`` and ``ONCE`` multiply in fixed point, like TFLite's kernels. ``TWICE`` rounds the high
    half of the doubled product, and then the result of its right shift. ``ONCE`` rounds the whole
    product once, ties up. ``FLOAT`` multiplies in float32 and rounds half to even, like ONNX
    Runtime's kernels. ``SHIFT`` multiplies and adds integers and shifts right, which rounds down.
    """

    TWICE = "twice"
    ONCE = "once"
    FLOAT = "float"
    SHIFT = "shift"


@dataclass(frozen=True, eq=False)
class Scaling:
    """The factors of a layer's sums, one per output channel.

    A factor is ``mantissas`` · 2^(-31 - ``shifts``), both int64, or ``factors`` in float32. For
    ``SHIFT``, a sum becomes (sum · ``mantissas`` + ``offsets``) >> ``shifts``, and ``factors`` are
    mantissas · 2^-shifts in float64.

    ``weights`` are the scales of the weights in float32, one per channel. ``step`` is the input's
    scale divided by the output's scale.
    """

    rounding: LayerRounding
    mantissas: Array
    shifts: Array
    factors: Array
    offsets: Array | int = 0
    weights: Array | None = None
    step: Fraction = Fraction(0)

    @property
    def has_offsets(self) -> bool:
        """Return whether the sums at which results begin depend on more than the factors."""
        return self.rounding in (LayerRounding.FLOAT, LayerRounding.SHIFT)


@dataclass(frozen=True, eq=False)
class LayerGeometry:
    """The images that a layer reads and writes, and the window that moves over the input.

    The heights and widths of a dense layer are 1. ``padding`` is (top, left, bottom, right).
    """

    kind: LayerKind
    batch: int
    channels: int
    height: int
    width: int
    out_channels: int
    out_height: int
    out_width: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]

    @property
    def pixels(self) -> int:
        """The number of positions in the output of one sample."""
        return self.out_height * self.out_width

    @property
    def input_elements(self) -> int:
        return self.height * self.width * self.channels

    @property
    def output_elements(self) -> int:
        return self.pixels * self.out_channels


@dataclass(frozen=True, eq=False)
class LinearLayer(LayerGeometry):
    """The sums of a layer: its geometry, weights and biases.

    Activations are (batch, height, width, channels). ``weights`` is (O, height, width, I). In a
    depthwise layer, I is 1, and output channel c reads input channel c. In a grouped layer, I is
    the number of channels of a group, and the output channels of a group are adjacent. ``bias`` is
    (O,).
    """

    dilation: tuple[int, int]
    weights: Array
    bias: Array

    @property
    def taps(self) -> int:
        """The number of products in one sum."""
        return prod(self.weights.shape[1:])

    @property
    def groups(self) -> int:
        """The number of groups of channels. Outputs of a group read only inputs of the group."""
        return self.channels // int(self.weights.shape[3])

    @property
    def is_pointwise(self) -> bool:
        """Return whether output pixel p reads only input pixel p."""
        return self.kernel == (1, 1) and self.strides == (1, 1) and not any(self.padding)

    @cached_property
    def matrix(self) -> Array:
        """The weights as (O, taps). The taps are in the order height, width, channel."""
        return self.weights.reshape(self.out_channels, -1)

    def list_sums(self, **changes: Any) -> dict[str, Any]:
        """Map the names of the fields of :class:`LinearLayer` to their values or to ``changes``.

        The additional fields of a subclass are not included.
        """
        return {f.name: getattr(self, f.name) for f in fields(LinearLayer)} | changes


@dataclass(frozen=True, eq=False)
class IntegerLayer(LinearLayer):
    """A layer of integers. ``weights`` and ``bias`` are int64. A sum is

    bias[c] + sum(weights[c] · (x - input_zero_point))
    """

    input_dtype: str
    input_zero_point: int

    @property
    def is_wide(self) -> bool:
        """Return whether activations have 16 bits, with zero points of 0."""
        return self.input_dtype == "int16"

    @cached_property
    def folded_bias(self) -> Array:
        """The bias for sums of stored integers. The bias includes the input's zero point."""
        folded: Array = self.bias - self.input_zero_point * self.matrix.sum(1)
        return folded

    @cached_property
    def largest_sum(self) -> int:
        """An upper bound of the magnitude of every sum and of its partial sums in any order."""
        limits = np.iinfo(self.input_dtype)
        largest = max(abs(int(limits.min)), abs(int(limits.max)))
        return int((np.abs(self.folded_bias) + np.abs(self.matrix).sum(1) * largest).max())


@dataclass(frozen=True, eq=False)
class Layer(IntegerLayer):
    """A layer of integers whose sums are scaled, moved by a zero point, and clamped.

    A result is clamp(zero_point + scaled(sum), low, high). Every element of the padding counts as
    ``input_zero_point``. ``repeats`` is the number of regions that have the layer's weights.
    """

    scaling: Scaling
    output_dtype: str
    zero_point: int
    low: int
    high: int
    repeats: int = 1


@dataclass(frozen=True, eq=False)
class Sums(IntegerLayer):
    """A dense layer of bytes whose sums are the results, such as the gates of an LSTM."""

    output_dtype: ClassVar[str] = "int32"


@dataclass(frozen=True, eq=False)
class BinaryLayer(LinearLayer):
    """A convolution or product whose inputs and weights are -1 and 1. Padding counts as 0.

    A result in int8 is 1 if the sum is at least the channel's ``bias``, and -1 otherwise. A result
    in float32 is the sum times the channel's scale.
    """

    scales: Array
    input_dtype: str
    output_dtype: str


@dataclass(frozen=True, eq=False)
class FloatLayer(LinearLayer):
    """A layer of float32: the clamped sum of a bias and products.

    A sum starts with its bias. Products are added in the order height, width, channel of the
    weights. Each product and each sum is rounded, so results have equal bits on every core. Padding
    counts as zeros that are multiplied. Each input of a region has a role in ``roles``. An input
    with the role "added" has the output's shape and is added to the finished sums. The input of an
    ``is_planar`` layer has its channels first: (batch, channels, height, width).
    """

    roles: tuple[str, ...]
    is_planar: bool
    low: float
    high: float

    @property
    def is_adding(self) -> bool:
        return "added" in self.roles


@dataclass(frozen=True, eq=False)
class Pair:
    """The requantized result of an operation on two tensors of bytes with ``elements`` elements.

    The two tensors have equal shapes. ``results`` has the stored result of each pair of integers,
    at [a - smallest a, b - smallest b]. The results are in the range from ``low`` to ``high``.
    """

    kind: ClassVar[LayerKind]

    elements: int
    input_dtypes: tuple[str, str]
    output_dtype: str
    results: Array
    low: int
    high: int

    @property
    def input_elements(self) -> tuple[int, int]:
        return self.elements, self.elements


@dataclass(frozen=True, eq=False)
class Addition(Pair):
    """A sum or a difference. ``factors`` convert steps of each input to steps of the output."""

    kind: ClassVar[LayerKind] = LayerKind.ADD

    factors: tuple[float, float]


@dataclass(frozen=True, eq=False)
class Product(Pair):
    """A product. ``factor`` is the product of both input scales, divided by the output scale.

    ``zero_points`` are the zero points of the inputs. The input with the number ``small`` may have
    only ``channels`` elements. Element i of the other input is multiplied by the small input's
    element (i / ``neighbors``) mod ``channels``.
    """

    kind: ClassVar[LayerKind] = LayerKind.MULTIPLY

    small: int
    channels: int
    neighbors: int
    zero_points: tuple[int, int]
    factor: float

    @property
    def input_elements(self) -> tuple[int, int]:
        sizes = (self.elements, self.channels)
        return sizes if self.small == 1 else (self.channels, self.elements)


@dataclass(frozen=True, eq=False)
class WrappedSum(Pair):
    """The lowest byte of a sum or a difference, without scales. ``sign`` is 1 or -1."""

    kind: ClassVar[LayerKind] = LayerKind.WRAPPED_SUM

    sign: int


@dataclass(frozen=True)
class Matrices:
    """The layout of a stack of matrices in a tensor with ``elements`` elements.

    The element in a row and a column is at stack · ``steps[0]`` + row · ``steps[1]`` + column ·
    ``steps[2]``. Therefore transposed matrices and adjacent heads need no copy. A stack step of 0
    means that all stacks use one matrix.
    """

    dtype: str
    zero_point: int
    elements: int
    steps: tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class MatrixProduct:
    """The requantized products of two stacks of matrices of bytes.

    The left operand is (stacks, rows, inner), the right operand (stacks, inner, columns), the
    result (stacks, rows, columns). ``roles`` names the inputs of the region, "left" and "right", in
    the region's order. ``sums`` is a layer of one channel that represents every result. ``sums``
    has the zero point of the left operand and the scaling. All its weights are the largest possible
    magnitude of the right operand after its zero point is subtracted. Therefore its bounds hold for
    all results.
    """

    kind: ClassVar[LayerKind] = LayerKind.MATMUL

    stacks: int
    rows: int
    columns: int
    roles: tuple[str, ...]
    left: Matrices
    right: Matrices
    sums: Layer

    @property
    def inner(self) -> int:
        """The number of products in one sum."""
        return self.sums.taps

    @property
    def inputs(self) -> tuple[tuple[str, Matrices], ...]:
        """The roles and matrices of the region's inputs, in the region's order."""
        given = {"left": self.left, "right": self.right}
        return tuple((role, given[role]) for role in self.roles)

    @property
    def output_dtype(self) -> str:
        return self.sums.output_dtype

    @property
    def output_elements(self) -> int:
        return self.stacks * self.rows * self.columns
