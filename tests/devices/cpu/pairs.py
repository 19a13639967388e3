"""Random sums, differences and products of two tensors of bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import relax

from firmwright.ir.layer import Array, LayerKind, Pair, Product
from firmwright.lowering.kernels.quantized_tensor import OutputQuantParams, QuantizedTensor
from firmwright.lowering.pairs import make_addition, make_product, make_wrapped_sum

PAIRS = (LayerKind.ADD, LayerKind.MULTIPLY, LayerKind.WRAPPED_SUM)


def draw_pair(kind: LayerKind, generator: np.random.Generator) -> Pair:
    """Return a random sum, difference or product, with the arithmetic of TFLite or ONNX."""
    dtypes = [str(generator.choice(["int8", "uint8"])) for _ in range(3)]
    if kind is LayerKind.WRAPPED_SUM:
        sign = int(generator.choice([1, -1]))
        return make_wrapped_sum(int(generator.integers(1, 200)), dtypes[0], sign)
    limits = [np.iinfo(dtype) for dtype in dtypes]
    points = [int(generator.integers(limit.min, limit.max + 1)) for limit in limits]
    scales = generator.uniform(0.02, 0.2, 3).astype("float32")
    terms = [
        QuantizedTensor(
            relax.Var("term", relax.TensorType((1,), dtypes[i])),
            np.array([float(scales[i])]),
            np.array([points[i]]),
            0,
            255,
        )
        for i in range(2)
    ]
    low = points[2] if generator.random() < 0.5 else int(limits[2].min)
    grid = OutputQuantParams(dtypes[2], scales[2], points[2], low, int(limits[2].max))
    rounding = "onnx" if generator.random() < 0.5 else "tflite"
    pixels, channels = (int(generator.integers(1, limit)) for limit in (9, 12))
    found: Pair | None
    if kind is LayerKind.MULTIPLY:
        shapes = [(1, channels), (pixels, channels), (pixels, 1), (1, 1)]
        second = shapes[int(generator.integers(len(shapes)))]
        both = [(2, pixels, channels), second]
        found = make_product(terms, grid, both[:: int(generator.choice([1, -1]))], rounding)
    else:
        signs = (1, int(generator.choice([1, -1])))
        found = make_addition(terms, grid, pixels * channels, rounding, signs)
    return draw_pair(kind, generator) if found is None else found


def evaluate_pair(layer: Pair, inputs: Sequence[Array]) -> Array:
    """Return the stored integers of a sum, difference or product as one array."""
    places = [x.reshape(-1).astype("int64") - np.iinfo(x.dtype).min for x in inputs]
    if isinstance(layer, Product):
        neighbors = np.repeat(places[layer.small], layer.neighbors)
        places[layer.small] = np.tile(neighbors, layer.elements // neighbors.size)
    computed: Array = layer.results[places[0], places[1]].astype(layer.output_dtype)
    return computed
