"""`python -m tests.conformance.tflite_sweep`: TFLite operators of random attributes and shapes.

Each operator is imported in a separate model, and runs in a model of many operators. Results are
compared with LiteRT's, which is firmwright's reference for this model.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from firmwright.errors import UserError
from firmwright.forked import run_in_copy
from firmwright.models.tflite import importer as tflite
from tests.networks.firmware import random_samples, run_generated
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
    shaped,
)
from tests.networks.tflite_weighted import CASES, Weighted, add_weighted

RESULTS = Path(__file__).with_name("tflite_operators.csv")
COLUMNS = ("operator", "type", "exact", "near", "wrong", "rejected", "no kernel", "reason")

WEIGHT_TYPES = {
    "float32": ("float32", "float32"), "int8": ("int8", "int32"), "uint8": ("uint8", "int32"),
    "int16": ("int8", "int64"), "dynamic": ("int8", "float32"),
}  # fmt: skip
"""The types of weights and biases, by the type of activations; dynamic is float32."""

PLAIN = (
    *(Case(kind, PICTURE) for kind in "CEIL COS FLOOR NEG ROUND SIGN SIN SQRT SQUARE".split()),
    *(Case(kind, shapes, options)
      for kind, options in (("DIV", "DivOptions"), ("FLOOR_DIV", "FloorDivOptions"),
                            ("FLOOR_MOD", "FloorModOptions"), ("POW", "PowOptions"))
      for shapes in (PAIR, BROADCAST)),
    *(Case(kind, PAIR, f"{kind.title().replace('_', '')}Options", grids="wide", raw_output="bool")
      for kind in ("EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL")),
    *(Case("CUMSUM", PICTURE, "CumsumOptions", {"exclusive": e, "reverse": r},
           (np.array(axis, "int32"),))
      for axis, e, r in ((1, False, False), (-1, True, False), (0, False, True))),
)  # fmt: skip
"""Operators without a table. Comparisons have scales below 1."""

UNDEFINED = {("DIV", dtype) for dtype in ("int8", "uint8", "int16")}
"""LiteRT's results overflow for quotients far below a step, which firmwright rounds to 0."""

NEAR = 1e-5
"""The maximum distance of floats that counts as near, as a part of the largest result."""

PART = 160
"""Imported operators after which the operators of each type run as one model."""


@dataclass(frozen=True)
class Entry:
    """One operator of the sweep; the seed determines its random numbers."""

    case: Case | Weighted
    dtype: str
    seed: int

    def add(self, builder: ModelBuilder) -> None:
        random = np.random.default_rng(self.seed)
        if isinstance(self.case, Case):
            add_case(builder, self.case, self.dtype, random)
        else:
            dtype = "float32" if self.dtype == "dynamic" else self.dtype
            add_weighted(builder, self.case, dtype, *WEIGHT_TYPES[self.dtype], random)


@dataclass
class Results:
    """Counts of outcomes by operator and type, and the first reason of a rejection."""

    counts: dict[tuple[str, str], Counter[str]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    reasons: dict[tuple[str, str], str] = field(default_factory=dict)

    def note(self, entry: Entry, outcome: str, reason: str = "") -> None:
        key = entry.case.kind, entry.dtype
        self.counts[key][outcome] += 1
        if reason:
            self.reasons.setdefault(key, " ".join(reason.split()))


def vary(case: Case | Weighted, random: np.random.Generator) -> Case | Weighted:
    """Return the case with other lengths, if no constant states one, and other options."""
    values = dict(case.values)
    if "fusedActivationFunction" in values:
        values["fusedActivationFunction"] = int(random.choice([0, 1, 3]))
    if "alpha" in values:
        values["alpha"] = float(np.float32(random.uniform(-1, 2)))
    if isinstance(case, Weighted) and case.kind in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        source = (case.source[0], *(int(n) for n in random.integers(6, 11, 2)), case.source[3])
        values |= dict(zip(("strideH", "strideW"), map(int, random.integers(1, 4, 2)), strict=True))
        values["padding"] = int(random.integers(0, 2))
        return replace(case, source=source, values=values)
    if isinstance(case, Weighted) or case.constants or case.grids == "slopes":
        return replace(case, values=values)
    lengths = {n for shape in case.inputs for n in shape if n > 1}
    other = {n: int(random.integers(max(2, n - 2), n + 4)) for n in sorted(lengths)}
    shapes = tuple(tuple(other.get(n, n) for n in shape) for shape in case.inputs)
    return replace(case, inputs=shapes, values=values)


def draw(count: int, seed: int, types: Collection[str]) -> Iterator[Entry]:
    """Yield this number of operators: all operators of the tables in turn, in each of the types."""
    random = np.random.default_rng(seed)
    cases: tuple[Case | Weighted, ...] = (*MOVES, *ARITHMETIC, *COMPUTED, *PLAIN, *CASES)
    pairs = [
        (case, dtype)
        for case in cases
        for dtype in types
        if (case.kind, dtype) not in UNDEFINED
        and (dtype != "dynamic" or isinstance(case, Weighted))
    ]
    for number in range(count):
        case, dtype = pairs[number * 7919 % len(pairs)]
        yield Entry(vary(case, random), dtype, int(random.integers(2**32)))


def build(entries: Sequence[Entry]) -> bytes:
    builder = ModelBuilder()
    for entry in entries:
        entry.add(builder)
    return shaped(builder)


def sweep(count: int, seed: int, types: Collection[str] = tuple(WEIGHT_TYPES)) -> Iterator[Results]:
    """Yield the results so far, after each part of the operators."""
    results, entries = Results(), list(draw(count, seed, types))
    for begin in range(0, count, PART):
        groups: dict[tuple[str, bool], list[Entry]] = defaultdict(list)
        for entry in entries[begin : begin + PART]:
            if is_accepted(entry, results):
                groups[entry.dtype, entry.case.kind == "SUM"].append(entry)
        for group in groups.values():
            run_group(group, results)
        yield results


def is_accepted(entry: Entry, results: Results) -> bool:
    """Return whether the operator is imported; if not, record the reason."""
    try:
        data = run_in_copy("LiteRT", build, [entry])
    except (UserError, RuntimeError, ValueError):
        results.note(entry, "no kernel")
        return False
    try:
        tflite.import_model(data, "model", {})
    except UserError as error:
        results.note(entry, "rejected", str(error))
        return False
    return True


def run_group(group: Sequence[Entry], results: Results) -> None:
    """Run operators as one model, or in two halves if one of them cannot be compiled or judged."""
    data = build(group)
    samples = random_samples(data, 3, 1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            found = run_generated(data, samples, Path(folder))
        expected = tflite.run_reference(data, samples).outputs
    except (UserError, RuntimeError) as error:
        if len(group) > 1:
            half = len(group) // 2
            run_group(group[:half], results)
            run_group(group[half:], results)
        elif "reference" in str(error):
            results.note(group[0], "no kernel")
        else:
            results.note(group[0], "rejected", str(error))
        return
    position = 0
    for entry in group:
        width = getattr(entry.case, "outputs", 1)
        pairs = [
            (a, b)
            for ours, theirs in zip(found, expected, strict=True)
            for a, b in zip(
                ours[position : position + width], theirs[position : position + width], strict=True
            )
        ]
        position += width
        results.note(entry, max((judge(a, b) for a, b in pairs), key=OUTCOMES.index))


OUTCOMES = ("exact", "near", "wrong")


def judge(found: Any, expected: Any) -> str:
    if np.array_equal(found, expected, equal_nan=found.dtype.kind == "f"):
        return "exact"
    if found.dtype.kind == "b":
        return "wrong"
    if found.dtype.kind != "f":
        apart = np.abs(found.astype("int64") - expected.astype("int64")).max()
        return "near" if apart <= 1 else "wrong"
    finite = np.isfinite(expected)
    if (np.isfinite(found) != finite).any():
        return "wrong"
    largest = float(np.abs(expected[finite]).max(initial=1e-6))
    apart = np.abs(found[finite] - expected[finite]).max(initial=0)
    return "near" if apart <= NEAR * largest else "wrong"


def write_results(results: Results, types: Collection[str], path: Path = RESULTS) -> None:
    """Replace the rows of these types."""
    with path.open(newline="", encoding="utf-8") as stream:
        rows = [row for row in list(csv.reader(stream))[1:] if row[1] not in types]
    for key, counts in results.counts.items():
        numbers = [str(counts[c]) for c in COLUMNS[2:7]]
        rows.append([*key, *numbers, results.reasons.get(key, "")])
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerows([COLUMNS, *sorted(rows)])


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.conformance.tflite_sweep")
    parser.add_argument("--count", type=int, default=2000, help="operators")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--types", nargs="+", choices=WEIGHT_TYPES, default=[*WEIGHT_TYPES])
    stated = parser.parse_args()
    total: Counter[str] = Counter()
    for results in sweep(stated.count, stated.seed, stated.types):
        write_results(results, stated.types)
        total = sum(results.counts.values(), Counter())
        print(", ".join(f"{total[name]} {name}" for name in COLUMNS[2:7]), flush=True)
    return int(total["wrong"] > 0)


if __name__ == "__main__":
    raise SystemExit(main())
