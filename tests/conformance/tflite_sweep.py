"""`python -m tests.conformance.tflite_sweep`: TFLite operators of random attributes and shapes.

Many operators run as one network, whose results are compared with LiteRT's. An operator that the
import rejects is imported in a separate network. `--only NUMBER` runs one operator alone.
"""

from __future__ import annotations

import argparse
import csv
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from firmwright.compile import compile_network
from firmwright.errors import UserError
from firmwright.forked import run_in_copy
from firmwright.models.formats import Imported
from firmwright.models.tflite import importer as tflite
from firmwright.models.tflite.interpreters import make_interpreter
from firmwright.recipe import parse_target
from firmwright.targets.load import load_mix
from firmwright.toolchain import load_platform
from firmwright.verify.protocol import decode_outputs
from tests.networks.firmware import Outputs, Sample, executed, random_samples
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

GROUP = 50
"""The number of operators in one network."""

UNOPTIMIZED = ("-O0",)
"""A network runs three samples, so optimization would take more time than it saves."""


@dataclass(frozen=True, eq=False)
class Entry:
    """One operator of the sweep; the seed determines its random numbers."""

    number: int
    case: Case | Weighted
    dtype: str
    seed: int

    def __str__(self) -> str:
        return f"operator {self.number}: {self.dtype} {self.case}, random numbers of {self.seed}"

    def add(self, builder: ModelBuilder) -> None:
        random = np.random.default_rng(self.seed)
        if isinstance(self.case, Case):
            add_case(builder, self.case, self.dtype, random)
        else:
            dtype = "float32" if self.dtype == "dynamic" else self.dtype
            add_weighted(builder, self.case, dtype, *WEIGHT_TYPES[self.dtype], random)


@dataclass
class Results:
    """Counts of outcomes by operator and type, the first reason of a rejection, wrong entries."""

    counts: dict[tuple[str, str], Counter[str]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    reasons: dict[tuple[str, str], str] = field(default_factory=dict)
    wrong: list[Entry] = field(default_factory=list)

    def note(self, entry: Entry, outcome: str, reason: str = "") -> None:
        key = entry.case.kind, entry.dtype
        self.counts[key][outcome] += 1
        if outcome == "wrong":
            self.wrong.append(entry)
        if reason:
            self.reasons.setdefault(key, " ".join(reason.split()))

    def total(self, *outcomes: str) -> int:
        """Return the number of operators with these outcomes, or of all operators."""
        total = sum(self.counts.values(), Counter())
        return sum(total[outcome] for outcome in outcomes or total)


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
        yield Entry(number, vary(case, random), dtype, int(random.integers(2**32)))


def build(entries: Sequence[Entry]) -> bytes:
    builder = ModelBuilder()
    for entry in entries:
        entry.add(builder)
    return shaped(builder)


def sweep(count: int, seed: int, types: Collection[str] = tuple(WEIGHT_TYPES)) -> Iterator[Results]:
    """Yield the results so far, after each network of operators."""
    results = Results()
    for group in make_groups([*draw(count, seed, types)]):
        run_group(keep_judged(group, results), results)
        yield results


def make_groups(entries: Sequence[Entry]) -> list[Sequence[Entry]]:
    """Return groups of at most GROUP operators.

    Operators that earlier sweeps rejected, or that had no kernel, have separate groups, because
    each rejection costs further imports.
    """
    with RESULTS.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    rejected = {(r["operator"], r["type"]) for r in rows if int(r["rejected"])}
    parts: tuple[list[Entry], list[Entry]] = [], []
    for entry in entries:
        parts[(entry.case.kind, entry.dtype) in rejected].append(entry)
    return [part[i : i + GROUP] for part in parts for i in range(0, len(part), GROUP)]


def keep_judged(group: Sequence[Entry], results: Results) -> Sequence[Entry]:
    """Return the operators that LiteRT computes; record the others."""
    try:
        judged = run_in_copy("LiteRT", lambda: [has_kernel(entry) for entry in group])
    except UserError:  # a crash
        if len(group) > 1:
            half = len(group) // 2
            return [*keep_judged(group[:half], results), *keep_judged(group[half:], results)]
        judged = [False]
    for entry, is_judged in zip(group, judged, strict=True):
        if not is_judged:
            results.note(entry, "no kernel")
    return list(compress(group, judged))


def has_kernel(entry: Entry) -> bool:
    """Return whether LiteRT supports the operator; the process may end."""
    try:
        interpreter = make_interpreter(build([entry]))
        interpreter.allocate_tensors()
        for detail in interpreter.get_input_details():
            interpreter.set_tensor(detail["index"], np.ones(detail["shape"], detail["dtype"]))
        interpreter.invoke()
    except (RuntimeError, ValueError):
        return False
    return True


def import_accepted(
    group: Sequence[Entry], results: Results
) -> tuple[Sequence[Entry], bytes, Imported | None]:
    """Import the operators as one network, without those that are rejected.

    Returns the accepted operators, the bytes of their network, and the imported network.
    """
    while group:
        data = build(group)
        try:
            return group, data, tflite.import_model(data, "model", {})
        except UserError as error:
            named = find_named(group, str(error))
            rejected = {entry for entry in named or group if is_rejected(entry, results)}
        group = [entry for entry in group if entry not in rejected]
    return group, b"", None


def find_named(group: Sequence[Entry], message: str) -> list[Entry]:
    """Return the operators whose tensors a message names."""
    names = {int(number) for number in re.findall(r"'t(\d+)'", message)}
    builder, found = ModelBuilder(), []
    for entry in group:
        begin = len(builder.graph.tensors)
        entry.add(builder)
        if names.intersection(range(begin, len(builder.graph.tensors))):
            found.append(entry)
    return found


def is_rejected(entry: Entry, results: Results) -> bool:
    """Return whether the import rejects the operator; if so, record the reason."""
    try:
        tflite.import_model(build([entry]), "model", {})
    except UserError as error:
        results.note(entry, "rejected", str(error))
        return True
    return False


def run_group(group: Sequence[Entry], results: Results) -> None:
    """Run operators as one model, or in two halves if one of them cannot be compiled or judged."""
    group, data, imported = import_accepted(group, results)
    if imported is None:
        return
    samples = random_samples(data, 3, 1)
    try:
        expected = tflite.run_reference(data, samples).outputs
        found = run_imported(imported, samples)
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
        end = position + getattr(entry.case, "outputs", 1)
        outcomes = [
            judge(a, b)
            for ours, theirs in zip(found, expected, strict=True)
            for a, b in zip(ours[position:end], theirs[position:end], strict=True)
        ]
        results.note(entry, max(outcomes, key=OUTCOMES.index))
        position = end


def run_imported(imported: Imported, samples: list[Sample]) -> Outputs:
    """Compile an imported network to C and run it."""
    mix = load_mix(parse_target("c"), load_platform("host"), "tflite")
    network = compile_network(*imported, mix)
    with tempfile.TemporaryDirectory() as folder:
        ran = executed(network, samples, Path(folder), UNOPTIMIZED)
    return decode_outputs(ran.console, network.interface.outputs, len(samples), ran.exit_code)


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
    parser.add_argument("--only", type=int, metavar="NUMBER", help="print one operator's outcome")
    stated = parser.parse_args()
    if stated.only is not None:
        return run_one([*draw(stated.count, stated.seed, stated.types)][stated.only])
    total: Counter[str] = Counter()
    for results in sweep(stated.count, stated.seed, stated.types):
        write_results(results, stated.types)
        total = sum(results.counts.values(), Counter())
        print(", ".join(f"{total[name]} {name}" for name in COLUMNS[2:7]), flush=True)
    print("".join(f"wrong: {entry}\n" for entry in results.wrong), end="")
    return int(total["wrong"] > 0)


def run_one(entry: Entry) -> int:
    results = Results()
    run_group(keep_judged([entry], results), results)
    key = entry.case.kind, entry.dtype
    print(f"{entry}: {', '.join(results.counts[key])} {results.reasons.get(key, '')}".rstrip())
    return int(bool(results.wrong))


if __name__ == "__main__":
    raise SystemExit(main())
