"""Random layers, their results in numpy, and networks that consist of layers only."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.devices.cpu.forms.form import Form
from firmwright.devices.cpu.forms.shifted_steps import choose_biases
from firmwright.devices.cpu.lowering import write_layer
from firmwright.devices.cpu.parts import split_layer
from firmwright.ir.byte_layers import ByteFunction, Resize, Softmax
from firmwright.ir.kernels import Kernels
from firmwright.ir.layer import (
    WIDE_KINDS,
    BinaryLayer,
    FloatLayer,
    Layer,
    LayerKind,
    LayerRounding,
    MatrixProduct,
    Pair,
    Scaling,
    Sums,
)
from firmwright.ir.regions import Partition, Region
from firmwright.ir.tensors import ModelInterface, Tensor
from firmwright.lowering.kernels.fixed_point import apply_multiplier, quantize_multiplier
from firmwright.planning import make_plan
from firmwright.project.network import Network
from tests.devices.cpu.binary_layers import draw_binary_layer, place_binary
from tests.devices.cpu.byte_functions import BYTE_FUNCTIONS, draw_byte_function
from tests.devices.cpu.float_layers import (
    FLOAT_KINDS,
    draw_float_layer,
    evaluate_floats,
    make_float_tensors,
    make_output,
)
from tests.devices.cpu.matrices import (
    draw_matrix_product,
    make_matrix_tensors,
    sum_matrices,
)
from tests.devices.cpu.pairs import PAIRS, draw_pair, evaluate_pair
from tests.devices.cpu.resizes import draw_resize, evaluate_resize, make_resize_tensors
from tests.devices.cpu.shapes import DENSE, DEPTHWISE, Shape, draw_shape
from tests.devices.cpu.softmax_rows import (
    SOFTMAXES,
    evaluate_softmax,
    make_softmax_tensors,
)

Array = npt.NDArray[Any]

AnyLayer = (
    Layer | FloatLayer | Pair | MatrixProduct | Softmax | Sums | ByteFunction | BinaryLayer | Resize
)

WITHOUT_WEIGHTS: dict[LayerKind, Callable[[np.random.Generator], AnyLayer]] = {
    **SOFTMAXES,
    LayerKind.RESIZE: draw_resize,
}

BITS, WIDE_BITS = (21, 22, 23, 24, 27, 28, 29, 30), (29, 30, 31, 32, 33)
"""Magnitudes of large sums, near the limits of forms."""


def make_layer(
    kind: LayerKind,
    shape: Shape,
    generator: np.random.Generator,
    rounding: LayerRounding = LayerRounding.TWICE,
    relu: bool = False,
    dtype: str = "int8",
) -> Layer:
    """Return a layer whose results use their whole range."""
    limits = np.iinfo(dtype)
    inner = 1 if kind in DEPTHWISE else shape.channels // shape.groups
    weights = generator.integers(-127, 128, (shape.out_channels, *shape.kernel, inner))
    wide = kind in WIDE_KINDS.values()
    steps = 15000 if wide else 60
    spread = steps * 74 * math.sqrt(math.prod(weights.shape[1:]))
    factors = generator.uniform(steps / 3, steps, shape.out_channels) / spread
    pairs = [quantize_multiplier(float(f)) for f in factors]
    zero_point = limits.min if relu else int(generator.integers(limits.min, limits.max + 1))
    input_zero_point = int(generator.integers(limits.min, limits.max + 1))
    if wide:
        zero_point = input_zero_point = 0
    return Layer(
        kind=kind,
        **shape.list_fields(),
        input_dtype=dtype,
        input_zero_point=input_zero_point,
        weights=weights,
        bias=generator.integers(-2 * int(spread), 2 * int(spread), shape.out_channels),
        scaling=Scaling(
            rounding,
            np.array([mantissa for mantissa, _ in pairs], "int64"),
            np.array([-shift for _, shift in pairs], "int64"),
            factors.astype("float32"),
        ),
        output_dtype=dtype,
        zero_point=zero_point,
        low=0 if wide and relu else int(limits.min),
        high=int(limits.max) - (40 if relu else 0),
    )


def evaluate(layer: AnyLayer, inputs: Sequence[Array]) -> Array:
    """Return the layer's result for stored integers (batch, height, width, channels)."""
    if isinstance(layer, Pair):
        return evaluate_pair(layer, inputs)
    if isinstance(layer, FloatLayer):
        return evaluate_floats(layer, dict(zip(layer.roles, inputs, strict=True)))
    if isinstance(layer, MatrixProduct):
        sums = sum_matrices(layer, dict(zip(layer.roles, inputs, strict=True)))
        return place(layer.sums, sums[..., None])[..., 0]
    (data,) = inputs
    if isinstance(layer, Softmax | Resize | ByteFunction):
        return evaluate_bytes(layer, data)
    top, left, bottom, right = layer.padding
    around = ((0, 0), (top, bottom), (left, right), (0, 0))
    zero_point = 0 if isinstance(layer, BinaryLayer) else layer.input_zero_point
    padded = np.pad(data.astype("int64") - zero_point, around)
    sums = np.broadcast_to(
        0 if isinstance(layer, BinaryLayer) else layer.bias,
        (layer.batch, layer.out_height, layer.out_width, layer.out_channels),
    ).astype("int64")
    for y in range(layer.kernel[0]):
        for x in range(layer.kernel[1]):
            rows = slice(y * layer.dilation[0], None, layer.strides[0])
            columns = slice(x * layer.dilation[1], None, layer.strides[1])
            seen = padded[:, rows, columns][:, : layer.out_height, : layer.out_width]
            if layer.kind in DEPTHWISE:
                sums = sums + seen * layer.weights[:, y, x, 0]
            else:
                sums = sums + multiply_groups(layer, seen, layer.weights[:, y, x])
    if isinstance(layer, BinaryLayer):
        return place_binary(layer, sums)
    return sums.astype("int32") if isinstance(layer, Sums) else place(layer, sums)


def evaluate_bytes(layer: Softmax | Resize | ByteFunction, data: Array) -> Array:
    """Return the result of a layer without weights for one tensor of bytes."""
    if isinstance(layer, Softmax):
        return evaluate_softmax(layer, data)
    if isinstance(layer, Resize):
        return evaluate_resize(layer, data)
    place_of_data = data.astype("int64") - np.iinfo(data.dtype).min
    return np.asarray(layer.results[place_of_data].astype(layer.output_dtype))


def place(layer: Layer, sums: Array) -> Array:
    """Return the stored integers of int64 sums (…, O)."""
    placed = scale(layer, sums) + layer.zero_point
    result: Array = np.clip(placed, layer.low, layer.high).astype(layer.output_dtype)
    return result


def multiply_groups(layer: Layer | Sums | BinaryLayer, data: Array, weights: Array) -> Array:
    """Return products (…, O) of inputs (…, I) and weights (O, I of a group)."""
    parts = np.split(data, layer.groups, -1), np.split(weights, layer.groups)
    return np.concatenate([x @ w.T for x, w in zip(*parts, strict=True)], -1)


def scale(layer: Layer, sums: Array) -> Array:
    """Return int64 sums (…, O) in steps of the output."""
    scaling = layer.scaling
    if scaling.rounding is LayerRounding.SHIFT:
        shifted: Array = (sums * scaling.mantissas + scaling.offsets) >> scaling.shifts
        return shifted
    if scaling.rounding is LayerRounding.FLOAT:
        rounded: Array = np.rint(sums.astype("float32") * scaling.factors).astype("int64")
        return rounded
    if scaling.rounding is LayerRounding.ONCE:
        bits = 31 + scaling.shifts
        # Python's integers, because with 16-bit activations the products exceed 64 bits.
        halves = (np.int64(1) << (bits - 1)).astype(object)
        whole: Array = (sums.astype(object) * scaling.mantissas + halves) >> bits
        return whole.astype("int64")
    columns = [
        [apply_multiplier(int(s), int(m), -int(shift)) for s in sums[..., c].reshape(-1)]
        for c, (m, shift) in enumerate(zip(scaling.mantissas, scaling.shifts, strict=True))
    ]
    return np.array(columns, "int64").T.reshape(sums.shape)


def make_network(
    layers: Sequence[AnyLayer],
    forms: Sequence[Form],
    shared: bool | Sequence[bool],
    decodes: bool = False,
) -> Network:
    """Return a network of independent layers; ``shared`` is for all layers or for each layer.

    Large layers are computed in parts if ``decodes`` is true.
    """
    are_shared = [shared] * len(layers) if isinstance(shared, bool) else shared
    inputs: list[Tensor] = []
    outputs: list[Tensor] = []
    regions, lowered = [], []
    for number, (layer, form, is_shared) in enumerate(zip(layers, forms, are_shared, strict=True)):
        read, written = make_tensors(layer, number)
        region = Region(
            name=f"layer_{number:04}",
            device="c",
            reason="",
            anchor=layer.kind.value,
            sources=(),
            operators=(layer.kind.value,),
            inputs=tuple(tensor.name for tensor in read),
            outputs=(written.name,),
            macs=0,
            view=False,
            dequantized=(),
        )
        inputs += read
        outputs.append(written)
        regions.append(region)
        split = split_layer(layer, form) if decodes else None
        lowered.append(write_layer(region, layer, form, is_shared, split))
    partition = Partition(
        tuple(t.name for t in inputs),
        tuple(t.name for t in outputs),
        (*inputs, *outputs),
        tuple(regions),
    )
    kernels = Kernels(tuple(result.kernel for result in lowered))
    return Network(
        "layers",
        "network",
        ModelInterface("tflite", "0" * 64, tuple(inputs), tuple(outputs), ()),
        partition,
        kernels,
        make_plan(partition, kernels),
        {name: array for result in lowered for name, array in result.weights.items()},
    )


def make_tensors(layer: AnyLayer, number: int) -> tuple[list[Tensor], Tensor]:
    """Return the inputs and the output of a layer."""
    if isinstance(layer, FloatLayer):
        return make_float_tensors(layer, number)
    if isinstance(layer, Pair):
        described = zip("ab", layer.input_elements, layer.input_dtypes, strict=True)
        read = [Tensor(f"input_{number}_{n}", (size,), dtype) for n, size, dtype in described]
        return read, make_output(number, (layer.elements,), layer.output_dtype)
    if isinstance(layer, MatrixProduct):
        return make_matrix_tensors(layer, number)
    if isinstance(layer, Softmax):
        return make_softmax_tensors(layer, number)
    if isinstance(layer, ByteFunction):
        one = [Tensor(f"input_{number}", (layer.elements,), layer.input_dtype)]
        return one, make_output(number, (layer.elements,), layer.output_dtype)
    if isinstance(layer, Resize):
        return make_resize_tensors(layer, number)
    before = (layer.batch, layer.height, layer.width, layer.channels)
    after = (layer.batch, layer.out_height, layer.out_width, layer.out_channels)
    read = [Tensor(f"input_{number}", before, layer.input_dtype)]
    return read, make_output(number, after, layer.output_dtype)


def draw_layer(
    kind: LayerKind,
    generator: np.random.Generator,
    is_taken: Callable[[AnyLayer], bool],
    bits: int = 8,
) -> Layer:
    """Return a random layer with weights of 8 bits or of at most 4; half are near limits of forms.

    Only a layer that ``is_taken`` accepts is shifted, because the search for shifts is the
    slowest step.
    """
    wide = kind in WIDE_KINDS.values()
    shape = draw_shape(kind, generator)
    rounding = LayerRounding.ONCE if wide or kind in DENSE else LayerRounding.TWICE
    dtype = "int8" if generator.random() < 0.8 else "uint8"
    relu = bool(generator.random() < 0.4)
    if wide:
        layer = make_layer(kind, shape, generator, rounding, relu, "int16")
        return layer if generator.random() < 0.5 else make_extreme(layer, generator)
    rounding = LayerRounding.FLOAT if generator.random() < 0.3 else rounding
    layer = make_layer(kind, shape, generator, rounding, relu, dtype)
    layer = layer if generator.random() < 0.5 else make_extreme(layer, generator)
    layer = layer if bits == 8 else narrow_weights(layer, generator)
    shifts = generator.random() < 0.2 and is_taken(layer)
    return make_shifted(layer, generator) if shifts else layer


def narrow_weights(layer: Layer, generator: np.random.Generator) -> Layer:
    """Return the layer with weights of 1, 2 or 4 bits; half of the layers have zero points."""
    bits, step = int(generator.choice([1, 2, 4, 4])), int(generator.choice([1, 2]))
    step = 1 if bits == 4 else step
    lows = generator.integers(-128, 128, (layer.out_channels, 1, 1, 1))
    lows = lows if generator.random() < 0.5 else np.full_like(lows, -(1 << bits - 1))
    weights = step * generator.integers(0, 1 << bits, layer.weights.shape) + lows
    return replace(layer, weights=np.minimum(weights, 127))


def make_shifted(layer: Layer, generator: np.random.Generator) -> Layer:
    """Return the layer with 12-bit factors, and with offsets smaller than one factor."""
    factors, shifts = layer.scaling.mantissas >> 19, layer.scaling.shifts + 12
    scaling = Scaling(
        LayerRounding.SHIFT,
        factors,
        shifts,
        np.ldexp(factors.astype("float64"), -shifts.astype("int32")),
        generator.integers(0, factors),
    )
    return choose_biases(replace(layer, scaling=scaling))


def make_extreme(layer: Layer, generator: np.random.Generator) -> Layer:
    """Return the layer with its largest weights, huge sums, or factors of at least 1/2."""
    scaling = layer.scaling
    match int(generator.integers(5)):
        case 0:
            extreme = np.where(generator.random(layer.weights.shape) < 0.9, -128, 127)
            return replace(layer, weights=extreme)
        case 1:
            return replace(layer, scaling=shift_factors(scaling, scaling.shifts * 0))
        case 2:
            shift = int(generator.integers(21, 27))
            shifts = np.full_like(scaling.shifts, shift)
            return replace(layer, scaling=shift_factors(scaling, shifts))
        case _:
            # Sums of about this size, and factors that scale them to the whole range of results.
            bits = int(generator.choice(WIDE_BITS if layer.is_wide else BITS))
            bias = generator.integers(-(2**bits), 2**bits, layer.out_channels)
            shifts = np.full_like(scaling.shifts, min(bits - (15 if layer.is_wide else 7), 21))
            return replace(layer, bias=bias, scaling=shift_factors(scaling, shifts))


def shift_factors(scaling: Scaling, shifts: Array) -> Scaling:
    """Return the factors shifted right by different numbers of bits."""
    factors = np.ldexp(scaling.mantissas, -31 - shifts).astype("float32")
    return replace(scaling, shifts=shifts, factors=factors)


def draw_sums(generator: np.random.Generator) -> Sums:
    """Return random sums; some have huge biases, and some have the weight -128."""
    shape = draw_shape(LayerKind.DENSE, generator)
    weights = generator.integers(-128, 128, (shape.out_channels, 1, 1, shape.channels))
    if generator.random() < 0.7:
        weights = np.maximum(weights, -127)
    largest = 2 ** int(generator.choice([12, 12, 22, 23, 30, 31]))
    signs = generator.choice([-1, 1], shape.out_channels)
    return Sums(
        kind=LayerKind.SUMS,
        batch=shape.batch,
        height=1,
        width=1,
        channels=shape.channels,
        out_height=1,
        out_width=1,
        out_channels=shape.out_channels,
        kernel=(1, 1),
        strides=(1, 1),
        dilation=(1, 1),
        padding=(0, 0, 0, 0),
        input_dtype=str(generator.choice(["int8", "uint8"])),
        input_zero_point=0,
        weights=weights,
        bias=signs * (largest - 1 - generator.integers(0, 2**12, shape.out_channels)),
    )


def draw(
    kind: LayerKind,
    generator: np.random.Generator,
    is_taken: Callable[[AnyLayer], bool] = lambda _: True,
    bits: int = 8,
) -> AnyLayer:
    """Return a random layer of a kind. Only layers of integers have narrow weights."""
    if kind is LayerKind.MATMUL:
        return draw_matrix_product(generator)
    if kind is LayerKind.SUMS:
        return draw_sums(generator)
    if kind is LayerKind.BINARY:
        return draw_binary_layer(generator)
    if kind in WITHOUT_WEIGHTS:
        return WITHOUT_WEIGHTS[kind](generator)
    if kind in FLOAT_KINDS:
        return draw_float_layer(kind, generator)
    if kind in PAIRS:
        return draw_pair(kind, generator)
    if kind in BYTE_FUNCTIONS:
        return draw_byte_function(kind, generator)
    return draw_layer(kind, generator, is_taken, bits)
