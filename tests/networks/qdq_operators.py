"""Random operators of a QDQ graph, each with its expected result.

A seed decides everything that is random. hypothesis also draws constants from all imported modules,
so its graphs would depend on earlier tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from tests.networks.qdq_graphs import Arithmetic, Graph, Sample
from tests.networks.qdq_reference import F32, Array, Grid, Tflite, convolve, windows_of

Option = TypeVar("Option")


class Draw:
    """Random choices, the same for a seed on every machine."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def whole(self, low: int, high: int) -> int:
        """Return a number from ``low`` to ``high``, both included."""
        return int(self.random.integers(low, high, endpoint=True))

    def several(self, low: int, high: int, count: int) -> list[int]:
        return [self.whole(low, high) for _ in range(count)]

    def among(self, options: Sequence[Option]) -> Option:
        return options[self.whole(0, len(options) - 1)]

    def truth(self) -> bool:
        return bool(self.whole(0, 1))


def scale_around(draw: Draw, centre: float, decades: float) -> np.float32:
    return F32(centre * 10 ** draw.random.uniform(-decades, decades))


def random_grid(draw: Draw, centre: float = 0.05, decades: float = 1.5) -> Grid:
    """Return 8-bit quantization parameters; the zero point is often at a limit of the type."""
    dtype = draw.among(["int8", "uint8"])
    limits = np.iinfo(dtype)
    low, high = int(limits.min), int(limits.max)
    point = draw.among([low, high, 0, *draw.several(low, high, 3)])
    return Grid(dtype, scale_around(draw, centre, decades), point)


def picture(draw: Draw, channels: int) -> tuple[int, ...]:
    return (1, channels, draw.whole(3, 7), draw.whole(3, 7))


def random_weights(draw: Draw, shape: tuple[int, ...], outer: int) -> tuple[Array, Array, int, int]:
    """Return weights, scales (1 or ``outer`` of them), the zero point, terms of a sum."""
    dtype = draw.among(["int8", "uint8"])
    random = draw.random
    stored = random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    per_channel = draw.truth()
    scales = 10 ** random.uniform(-4, -1, outer) if per_channel else np.array(0.01)
    zero_point = draw.among([0, 0, 3]) if dtype == "int8" else 128
    return stored, scales.astype(F32), zero_point, int(np.prod(shape)) // outer


def sum_grid(draw: Draw, source: Grid, scales: Array, terms: int) -> Grid:
    """Return a scale that fits the spread of the sums; smaller ones would saturate most results."""
    spread = float(source.scale) * float(scales.max()) * 127 * np.sqrt(terms)
    return random_grid(draw, spread / 3, 1.0)


def add_convolution(draw: Draw, graph: Graph) -> None:
    groups = draw.among([1, 1, 2, 4])
    inner, each = draw.whole(1, 2), draw.whole(1, 3)
    source = random_grid(draw)
    shape = picture(draw, inner * groups)
    window = draw.several(1, 3, 2)
    dilations = [draw.whole(1, 2) if shape[2 + i] > 2 * (window[i] - 1) else 1
                 for i in range(2)]  # fmt: skip
    options = {
        "group": groups,
        "dilations": dilations,
        "strides": draw.several(1, 3, 2),
        "pads": draw.several(0, 2, 4),
    }
    outer = groups * each
    stored, scales, point, terms = random_weights(draw, (outer, inner, *window), outer)
    grid = sum_grid(draw, source, scales, terms)
    products = np.broadcast_to(source.scale * scales, (outer,)).astype(F32)
    bias = np.random.default_rng(outer).integers(-9999, 9999, outer).astype("int32")
    relu, biased = draw.truth(), draw.truth()

    data, real = graph.input(shape, source)
    inputs = [real, graph.weights(stored, scales, point, 0)]
    if biased:
        inputs.append(graph.weights(bias, products, 0, 0))
    result = graph.node("Conv", inputs, **options)
    if relu:
        result = graph.node("Relu", [result])

    def reference(arithmetic: Arithmetic, sample: Sample) -> Array:
        sums = convolve(source.centered(sample[data]), stored.astype("int64") - point, options)
        sums = sums + (bias[:, None, None] if biased else 0)
        exact = source.scale.astype("float64") * np.asarray(scales, "float64")
        channels = np.broadcast_to(exact, (outer,))[:, None, None]
        return arithmetic.of_sum(sums, channels, grid, relu)

    graph.output(result, grid, reference)


def add_product(draw: Draw, graph: Graph) -> None:
    inner, outer = draw.whole(1, 12), draw.whole(1, 5)
    source = random_grid(draw)
    transposed = draw.truth()
    shape = (outer, inner) if transposed else (inner, outer)
    stored, scales, point, terms = random_weights(draw, shape, outer)
    grid = sum_grid(draw, source, scales, terms)
    bias = np.arange(-outer, 0, dtype="int32") * 500
    products = np.broadcast_to(source.scale * scales, (outer,)).astype(F32)

    data, real = graph.input((2, inner), source)
    weights = graph.weights(stored, scales, point, 0 if transposed else 1)
    if transposed:
        given = [real, weights, graph.weights(bias, products, 0, 0)]
        result = graph.node("Gemm", given, transB=1)
    else:
        result = graph.node("MatMul", [real, weights])

    def reference(arithmetic: Arithmetic, sample: Sample) -> Array:
        right = stored.astype("int64") - point
        sums = source.centered(sample[data]) @ (right.T if transposed else right)
        exact = source.scale.astype("float64") * np.asarray(scales, "float64")
        return arithmetic.of_sum(sums + (bias if transposed else 0), exact, grid, once=True)

    graph.output(result, grid, reference)


def add_pair(draw: Draw, graph: Graph) -> None:
    """A sum, difference or product of two tensors, one of them perhaps broadcast."""
    kind = draw.among(["Add", "Sub", "Mul"])
    shape = picture(draw, 2)
    shapes = [shape, draw.among([shape, (1, 2, 1, 1), (1,)])]
    grids = [random_grid(draw) for _ in shapes]
    centre = float(grids[0].scale) * (float(grids[1].scale) * 99 if kind == "Mul" else 1)
    grid = random_grid(draw, centre, 0.8)
    inputs = [graph.input(s, g) for s, g in zip(shapes, grids, strict=True)]
    result = graph.node(kind, [real for _, real in inputs])

    def reference(arithmetic: Arithmetic, sample: Sample) -> Array:
        stored = np.broadcast_arrays(*(sample[name] for name, _ in inputs))
        pairs = list(zip(stored, grids, strict=True))
        if kind == "Mul":
            return arithmetic.multiply(pairs, grid)
        return arithmetic.add(pairs, grid, 1 if kind == "Add" else -1)

    graph.output(result, grid, reference)


def add_average(draw: Draw, graph: Graph) -> None:
    source = random_grid(draw)
    grid = random_grid(draw, float(source.scale), 0.8)
    shape = picture(draw, 2)
    data, real = graph.input(shape, source)
    everything = draw.truth()
    if everything:
        options = {"kernel_shape": list(shape[2:]), "pads": [0, 0, 0, 0], "strides": [1, 1]}
        with_padding = False
        result = graph.node("GlobalAveragePool", [real])
    else:
        window = draw.several(2, 3, 2)
        pads = [draw.whole(0, window[i % 2] - 1) for i in range(4)]
        strides = draw.several(1, 3, 2)
        options = {"kernel_shape": window, "pads": pads, "strides": strides}
        with_padding = any(pads) and draw.truth() and source != grid
        result = graph.node("AveragePool", [real], count_include_pad=int(with_padding), **options)

    def reference(arithmetic: Arithmetic, sample: Sample) -> Array:
        centered = source.centered(sample[data])
        inside = windows_of(np.ones_like(centered), int(with_padding), options)
        windows = windows_of(centered, 0, options)
        if everything and isinstance(arithmetic, Tflite):
            return arithmetic.mean(windows, inside.sum(axis=-1), source, grid)
        return arithmetic.average(windows, inside.sum(axis=-1), source, grid)

    graph.output(result, grid, reference)


FUNCTIONS: dict[str, tuple[dict[str, float], Callable[[Array], Array]]] = {
    "Relu": ({}, lambda x: np.maximum(x, F32(0))),
    "LeakyRelu": ({"alpha": 0.3}, lambda x: np.where(x > 0, x, x * F32(0.3))),
    "Abs": ({}, np.abs),
    "Neg": ({}, np.negative),
    "Sqrt": ({}, np.sqrt),
    "Sigmoid": ({}, lambda x: 1 / (1 + np.exp(-x.astype("float64")))),
    "Tanh": ({}, lambda x: np.tanh(x.astype("float64"))),
    "Exp": ({}, lambda x: np.exp(x.astype("float64"))),
    "HardSigmoid": (
        {"alpha": 0.25, "beta": 0.5},
        lambda x: np.clip(x * F32(0.25) + F32(0.5), F32(0), F32(1)),
    ),
}


SLOPES = {"Abs": (F32(1), F32(-1)), "LeakyRelu": (F32(1), F32(0.3))}
"""Slopes for positive and negative values, in functions that TFLite computes with multipliers."""


def in_fixed_point(
    arithmetic: Tflite, names: list[str], stored: Array, source: Grid, grid: Grid
) -> Array | None:
    """Compute a chain that is at most one function of SLOPES between ReLUs.

    A ReLU at the end clamps the result; one at the start is exact if 0 is stored as 0.
    """
    last = next((i for i, n in enumerate(reversed(names)) if n != "Relu"), len(names))
    clamps, inner, x = last > 0, names[: len(names) - last], source.centered(stored)
    while inner and inner[0] == "Relu" and source.zero_point == 0:
        inner, x = inner[1:], np.maximum(x, 0)
    if inner and not (len(inner) == 1 and inner[0] in SLOPES):
        return None
    slopes = SLOPES[inner[0]] if inner else (F32(1), F32(1))
    factors = [float(source.scale * abs(s) / grid.scale) * float(grid.scale) for s in slopes]
    signed = np.where((x < 0) & (slopes[1] < 0), -x, x)
    return arithmetic.of_sum(signed, np.where(x < 0, factors[1], factors[0]), grid, relu=clamps)


def truncate_root(x: Array, source: Grid, grid: Grid) -> Array:
    """Return TFLite's SQRT, which truncates the steps of a root; negative values result in 0."""
    roots = np.sqrt(np.maximum(x, 0).astype(F32) * F32(source.scale)) / F32(grid.scale)
    return grid.store(np.trunc(roots))


def add_functions(draw: Draw, graph: Graph) -> None:
    """A chain of one to three functions of one tensor."""
    names = [draw.among(sorted(FUNCTIONS)) for _ in range(draw.whole(1, 3))]
    source, grid = random_grid(draw), random_grid(draw)
    data, result = graph.input(picture(draw, 2), source)
    for name in names:
        result = graph.node(name, [result], **FUNCTIONS[name][0])

    def reference(arithmetic: Arithmetic, sample: Sample) -> Array:
        stored = sample[data]
        if isinstance(arithmetic, Tflite):
            result = in_fixed_point(arithmetic, names, stored, source, grid)
            if result is not None:
                return result
            if names == ["Sqrt"] and stored.dtype.itemsize == 1:
                return truncate_root(source.centered(stored), source, grid)
        real = source.real(stored)
        with np.errstate(all="ignore"):
            for name in names:
                real = FUNCTIONS[name][1](real).astype(F32)
            return arithmetic.of_function(real, grid)

    graph.output(result, grid, reference)


def add_move(draw: Draw, graph: Graph) -> None:
    """Add an operator that only moves elements, from one or two scales to other or equal scales."""
    kind = draw.among(sorted(MOVES))
    grids = [random_grid(draw) for _ in range(2)]
    grid = draw.among([*grids, random_grid(draw)])
    shape = picture(draw, 2)
    inputs = [graph.input(shape, g) for g in (grids if kind in BINARY else grids[:1])]
    result, function = MOVES[kind](graph, [real for _, real in inputs])

    def reference(arithmetic: Arithmetic, sample: Sample) -> Array:
        joined = kind == "Concat" and isinstance(arithmetic, Tflite)
        stored = [
            Tflite.of_joined(sample[name], g, grid)
            if joined
            else arithmetic.of_stored(sample[name], g, grid)
            for (name, _), g in zip(inputs, grids, strict=False)
        ]
        fill = arithmetic.of_real(np.array(F32(0.3)), grid)
        return function(*stored, fill) if kind == "Pad" else function(*stored)

    graph.output(result, grid, reference)


Move = Callable[[Graph, list[str]], tuple[str, Callable[..., Array]]]


def concat(graph: Graph, reals: list[str]) -> tuple[str, Callable[..., Array]]:
    return graph.node("Concat", reals, axis=1), lambda a, b: np.concatenate([a, b], 1)


def largest(graph: Graph, reals: list[str]) -> tuple[str, Callable[..., Array]]:
    return graph.node("Max", reals), np.maximum


def smallest(graph: Graph, reals: list[str]) -> tuple[str, Callable[..., Array]]:
    """The minimum of three operands, of which two are the first one."""
    return graph.node("Min", [*reals, reals[0]]), np.minimum


def transpose(graph: Graph, reals: list[str]) -> tuple[str, Callable[..., Array]]:
    result = graph.node("Transpose", reals, perm=[0, 2, 3, 1])
    return result, lambda a: a.transpose(0, 2, 3, 1)


def reshape(graph: Graph, reals: list[str]) -> tuple[str, Callable[..., Array]]:
    shape = graph.constant(np.array([1, -1], "int64"))
    return graph.node("Reshape", [*reals, shape]), lambda a: a.reshape(1, -1)


def part(graph: Graph, reals: list[str]) -> tuple[str, Callable[..., Array]]:
    bounds = [graph.constant(np.array(v, "int64")) for v in ([1, 0], [9, 9], [2, 3], [1, 2])]
    return graph.node("Slice", [*reals, *bounds]), lambda a: a[:, :, 1:9:1, 0:9:2]


def pad(graph: Graph, reals: list[str]) -> tuple[str, Callable[..., Array]]:
    width = graph.constant(np.array([0, 0, 1, 0, 0, 0, 2, 1], "int64"))
    result = graph.node("Pad", [*reals, width, graph.constant(F32(0.3))])
    places = ((0, 0), (0, 0), (1, 2), (0, 1))
    return result, lambda a, fill: np.pad(a, places, constant_values=fill)


def largest_of_window(graph: Graph, reals: list[str]) -> tuple[str, Callable[..., Array]]:
    options = {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [1, 1, 0, 1]}

    def function(a: Array) -> Array:
        return np.asarray(windows_of(a, np.iinfo(a.dtype).min, options).max(axis=-1))

    return graph.node("MaxPool", reals, **options), function


def enlarge(graph: Graph, reals: list[str]) -> tuple[str, Callable[..., Array]]:
    scales = graph.constant(np.array([1, 1, 2, 3], "float32"))
    result = graph.node(
        "Resize", [*reals, "", scales], mode="nearest", nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
    )  # fmt: skip
    return result, lambda a: a.repeat(2, axis=2).repeat(3, axis=3)


def clip(graph: Graph, reals: list[str]) -> tuple[str, Callable[..., Array]]:
    """This is not a move, but infinite bounds do not change the elements."""
    bounds = [graph.constant(F32(b)) for b in (-np.inf, np.inf)]
    return graph.node("Clip", [*reals, *bounds]), lambda a: a


BINARY = frozenset({"Concat", "Max", "Min"})
MOVES: dict[str, Move] = {
    "Clip": clip, "Concat": concat, "Max": largest, "MaxPool": largest_of_window,
    "Min": smallest, "Pad": pad, "Reshape": reshape, "Resize": enlarge, "Slice": part,
    "Transpose": transpose,
}  # fmt: skip

OPERATORS = (add_convolution, add_product, add_pair, add_average, add_functions, add_move)


def random_graph(seed: int, each: int) -> Graph:
    """Return a graph of ``each`` operators of every kind."""
    draw, graph = Draw(seed), Graph()
    for add in OPERATORS:
        for _ in range(each):
            add(draw, graph)
    return graph
