"""Draws the operators of the sweep, with random attributes, shapes and types."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from firmwright.models.tflite.interpreters import REFERENCE
from tests.networks.tflite_declared import DECLARED, Declared, add_declared
from tests.networks.tflite_models import ModelBuilder
from tests.networks.tflite_operators import (
    ARITHMETIC,
    BROADCAST,
    COMPUTED,
    MOVES,
    PAIR,
    PICTURE,
    Case,
    add_case,
)
from tests.networks.tflite_spectra import write_spectrum
from tests.networks.tflite_states import (
    write_bidirectional_lstm,
    write_integer_lstm,
    write_lstm_network,
    write_lstm_step,
    write_svdf_network,
    write_variable_network,
)
from tests.networks.tflite_subgraphs import write_branches, write_loop
from tests.networks.tflite_weighted import CASES, Weighted, add_weighted

RESULTS = Path(__file__).with_name("tflite_operators.csv")

WEIGHT_TYPES = {
    "float32": ("float32", "float32"), "int8": ("int8", "int32"), "uint8": ("uint8", "int32"),
    "int16": ("int8", "int64"), "dynamic": ("int8", "float32"),
}  # fmt: skip
"""The types of weights and biases, by the type of activations; dynamic is float32."""

TYPES = (*WEIGHT_TYPES, "int32", "bool")


@dataclass(frozen=True)
class Whole:
    """A network of several operators, which ``write`` returns as a file."""

    kind: str
    dtype: str
    write: Callable[[], bytes]


PLAIN = (
    *(Case(kind, PICTURE) for kind in "CEIL COS FLOOR NEG ROUND SIGN SIN SQUARE".split()),
    *(Case("SQRT", PICTURE, grids="root") for _ in range(2)),
    *(Case(kind, shapes, options)
      for kind, options in (("DIV", "DivOptions"), ("FLOOR_DIV", "FloorDivOptions"),
                            ("FLOOR_MOD", "FloorModOptions"), ("POW", "PowOptions"))
      for shapes in (PAIR, BROADCAST)),
    *(Case(kind, shapes, f"{kind.title().replace('_', '')}Options", grids="wide",
           raw_output="bool")
      for kind in ("EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL")
      for shapes in (PAIR, BROADCAST)),
    *(Case("CUMSUM", PICTURE, "CumsumOptions", {"exclusive": e, "reverse": r},
           (np.array(axis, "int32"),))
      for axis, e, r in ((1, False, False), (-1, True, False), (0, False, True))),
)  # fmt: skip
"""Operators without a table. Comparisons have scales below 1."""

WHOLE = (
    *(Whole(kind, "int8", write_variable_network)
      for kind in ("ASSIGN_VARIABLE", "CALL_ONCE", "READ_VARIABLE", "VAR_HANDLE")),
    *(Whole("IF", "float32", partial(write_branches, constant)) for constant in (None, True)),
    *(Whole(kind, "float32", partial(write_spectrum, reader))
      for kind, reader in (("RFFT2D", "REAL"), ("COMPLEX_ABS", "COMPLEX_ABS"), ("REAL", "REAL"),
                           ("IMAG", "IMAG"))),
    Whole("WHILE", "float32", partial(write_loop, 5)),
    Whole("SVDF", "int8", write_svdf_network),
    Whole("SVDF", "float32", partial(write_svdf_network, quantized=False)),
    Whole("SVDF", "dynamic", partial(write_svdf_network, quantized=False, dynamic_range=True)),
    Whole("LSTM", "float32", write_lstm_step),
    Whole("LSTM", "int8", partial(write_integer_lstm, 0, -11, 7)),
    *(Whole("UNIDIRECTIONAL_SEQUENCE_LSTM", dtype, partial(write_lstm_network, *flags))
      for dtype, flags in (("float32", ()), ("float32", (True,)),
                           ("float32", (False, True, False, True)),
                           ("dynamic", (False, True, True)), ("dynamic", (False, False, True)))),
    *(Whole("UNIDIRECTIONAL_SEQUENCE_LSTM", "int8", partial(write_integer_lstm, *values))
      for values in ((4, -11, 7, 10.0), (3, -15, -128, 0.5), (2, -12, 0, 0, True, True))),
    Whole("BIDIRECTIONAL_SEQUENCE_LSTM", "float32", partial(write_bidirectional_lstm, False)),
    Whole("BIDIRECTIONAL_SEQUENCE_LSTM", "dynamic",
          partial(write_bidirectional_lstm, False, dynamic_range=True)),
)  # fmt: skip
"""Operators with states or subgraphs."""

UNDEFINED = {("DIV", dtype) for dtype in ("int8", "uint8", "int16")}
"""LiteRT's results overflow for quotients far below a step, which firmwright rounds to 0."""

DIVISORS = {
    (kind, dtype)
    for kind in ("DIV", "FLOOR_DIV", "FLOOR_MOD", "POW")
    for dtype in ("int8", "int16", "int32")
}
"""The tables of these operators would draw zeros or negative numbers."""

Operation = Case | Weighted | Declared | Whole


@dataclass(frozen=True, eq=False)
class Entry:
    """One operator of the sweep; the seed determines its random numbers.

    ``shapes`` are the shapes of its results, ``kernels`` the set of kernels that computes it.
    """

    number: int
    case: Operation
    dtype: str
    seed: int
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    kernels: str = REFERENCE

    def __str__(self) -> str:
        return f"operator {self.number}: {self.dtype} {self.case}, random numbers of {self.seed}"

    def add(self, builder: ModelBuilder) -> None:
        """Add the operator to a network, with the shapes of its results, if they are known."""
        random, case = np.random.default_rng(self.seed), self.case
        begin = len(builder.graph.outputs)
        if isinstance(case, Case):
            add_case(builder, case, self.dtype, random)
        elif isinstance(case, Declared):
            add_declared(builder, case, self.dtype, random)
        elif isinstance(case, Weighted):
            dtype = "float32" if self.dtype == "dynamic" else self.dtype
            add_weighted(builder, case, dtype, *WEIGHT_TYPES[self.dtype], random)
        for index, shape in zip(builder.graph.outputs[begin:], self.shapes, strict=False):
            builder.graph.tensors[index].shape = list(shape)


def vary(case: Operation, random: np.random.Generator) -> Operation:
    """Return the case with other lengths, if no constant states one, and other options."""
    if isinstance(case, Whole):
        return case
    values = dict(case.values)
    if "fusedActivationFunction" in values:
        values["fusedActivationFunction"] = int(random.choice([0, 1, 3]))
    if "alpha" in values and case.kind == "LEAKY_RELU":
        values["alpha"] = float(np.float32(random.uniform(-1, 2)))
    if isinstance(case, Declared):
        return vary_declared(replace(case, values=values), random)
    if isinstance(case, Weighted) and case.kind in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        source = (case.source[0], *(int(n) for n in random.integers(6, 11, 2)), case.source[3])
        values |= dict(zip(("strideH", "strideW"), map(int, random.integers(1, 4, 2)), strict=True))
        values["padding"] = int(random.integers(0, 2))
        return replace(case, source=source, values=values)
    if isinstance(case, Weighted) or case.constants or case.grids == "slopes" or "num" in values:
        return replace(case, values=values)
    other = vary_lengths({n for shape in case.inputs for n in shape}, random)
    if "Depth" in case.options:  # blocks divide the lengths
        other = {n: n for n in other}
    shapes = tuple(tuple(other[n] for n in shape) for shape in case.inputs)
    return replace(case, inputs=shapes, values=values)


def vary_declared(case: Declared, random: np.random.Generator) -> Declared:
    if case.is_fixed or any(i.values is not None or i.is_random for i in case.inputs):
        return case
    other = vary_lengths({n for each in case.inputs for n in each.shape}, random)
    inputs = (replace(i, shape=tuple(other[n] for n in i.shape)) for i in case.inputs)
    return replace(case, inputs=tuple(inputs))


def vary_lengths(lengths: Collection[int], random: np.random.Generator) -> dict[int, int]:
    """Return another length for each length, which fits windows of 3 elements if the first does."""
    return {
        n: int(random.integers(max(min(n, 3), n - 2), n + 4)) if n > 1 else n
        for n in sorted(lengths)
    }


def list_types(case: Operation) -> Collection[str]:
    """Return the types of an operator in the sweep."""
    if isinstance(case, Declared):
        return case.types
    if isinstance(case, Whole):
        return (case.dtype,)
    if isinstance(case, Weighted):
        return tuple(WEIGHT_TYPES)
    excluded = UNDEFINED | DIVISORS
    return [t for t in TYPES if t != "dynamic" and (case.kind, t) not in excluded]


def list_operations(types: Collection[str]) -> dict[tuple[str, str], list[Operation]]:
    """Return the operators of all tables by kind and type, without whole networks."""
    found: dict[tuple[str, str], list[Operation]] = defaultdict(list)
    cases: tuple[Operation, ...] = (*MOVES, *ARITHMETIC, *COMPUTED, *PLAIN, *CASES, *DECLARED)
    for case in cases:
        for dtype in list_types(case):
            if dtype in types:
                found[case.kind, dtype].append(case)
    return found


def draw(
    count: int, seed: int, types: Collection[str], missing: Collection[tuple[str, str]] = ()
) -> Iterator[Entry]:
    """Yield this number of operators: each operator in each type in turn.

    The next seed continues with the next operators of the tables. ``missing`` are the operators and
    types to omit.
    """
    random = np.random.default_rng([seed, 1])
    by_kind = [cases for key, cases in list_operations(types).items() if key not in missing]
    keys = [key for key in list_operations(types) if key not in missing]
    for number in range(count):
        turn, position = divmod(seed * count + number, len(keys))
        cases = by_kind[position]
        case = vary(cases[turn % len(cases)], random)
        yield Entry(number, case, keys[position][1], int(random.integers(2**32)))


def draw_whole(first: int, types: Collection[str]) -> Iterator[Entry]:
    """Yield the networks with states or subgraphs, which have no random attributes."""
    chosen = [case for case in WHOLE if case.dtype in types]
    yield from (Entry(first + n, case, case.dtype, n) for n, case in enumerate(chosen))


def read_pairs(outcome: str, exclusive: bool = False) -> set[tuple[str, str]]:
    """Return the operators and types with an outcome in the last sweep, or with no other one."""
    with RESULTS.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    others = {"exact", "near", "wrong", "rejected", "no kernel"} - {outcome}
    return {
        (row["operator"], row["type"])
        for row in rows
        if int(row[outcome]) and not (exclusive and any(int(row[n]) for n in others))
    }
