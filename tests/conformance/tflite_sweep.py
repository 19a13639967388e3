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
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from firmwright.compile import compile_network
from firmwright.errors import UserError
from firmwright.forked import run_in_copy
from firmwright.models.formats import Imported
from firmwright.models.tflite import importer as tflite
from firmwright.models.tflite.interpreters import OPTIMIZED, REFERENCE, make_interpreter
from firmwright.recipe.target import parse_target
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import load_platform
from firmwright.verify.protocol import decode_outputs
from tests.conformance.tflite_entries import (
    RESULTS,
    TYPES,
    Entry,
    Whole,
    draw,
    draw_whole,
    read_pairs,
)
from tests.networks.firmware import Outputs, Sample, executed, random_samples
from tests.networks.tflite_models import ModelBuilder

COLUMNS = ("operator", "type", "exact", "near", "wrong", "rejected", "no kernel", "reason")

Limits = Mapping[str, tuple[float, float]]

NEAR = 1e-5
"""The maximum distance of floats that counts as near, as a part of the largest result."""

GROUP = 100
"""The number of operators in one network."""

UNOPTIMIZED = ("-O0",)
"""A network runs three samples, so optimization would take more time than it saves."""


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


def build(entries: Sequence[Entry]) -> tuple[bytes, Limits]:
    """Return the file of a network, and the limits of its inputs."""
    if isinstance(entries[0].case, Whole):
        return entries[0].case.write(), {}
    builder = ModelBuilder()
    for entry in entries:
        entry.add(builder)
    return builder.build(), builder.limits


def sweep(
    count: int, seed: int, types: Collection[str] = TYPES, complete: bool = False
) -> Iterator[Results]:
    """Yield the results so far, after each network of operators.

    A complete sweep includes the operators and types that the last complete sweep did not run, and
    the networks with states or subgraphs.
    """
    results = Results()
    missing = () if complete else list_missing()
    entries = [*draw(count, seed, types, missing)]
    if complete:
        entries += draw_whole(count, types)
    judged = [entry for part in divide(entries) for entry in keep_judged(part, results)]
    for group in make_groups(judged):
        run_group(group, results)
        yield results


def list_missing() -> set[tuple[str, str]]:
    """Return the operators and types that the last complete sweep did not run."""
    return read_pairs("no kernel", exclusive=True) | read_pairs("rejected", exclusive=True)


def divide(entries: Sequence[Entry]) -> list[Sequence[Entry]]:
    """Return parts of at most GROUP operators."""
    return [entries[i : i + GROUP] for i in range(0, len(entries), GROUP)]


def make_groups(entries: Sequence[Entry]) -> list[Sequence[Entry]]:
    """Return groups of at most GROUP operators.

    Separate groups contain operators that earlier sweeps rejected, because each rejection costs
    further imports, and operators without a reference kernel. Networks with states or subgraphs
    stay alone.
    """
    rejected = read_pairs("rejected")
    parts: dict[tuple[str, bool], list[Entry]] = defaultdict(list)
    alone = []
    for entry in entries:
        if isinstance(entry.case, Whole):
            alone.append([entry])
        else:
            parts[entry.kernels, (entry.case.kind, entry.dtype) in rejected].append(entry)
    return [*(group for part in parts.values() for group in divide(part)), *alone]


def keep_judged(group: Sequence[Entry], results: Results) -> Sequence[Entry]:
    """Return the operators that LiteRT computes, with their shapes; record the others."""
    try:
        found = run_in_copy("LiteRT", lambda: [find_kernels(entry) for entry in group])
    except UserError:  # a crash
        if len(group) > 1:
            half = len(group) // 2
            return [*keep_judged(group[:half], results), *keep_judged(group[half:], results)]
        found = [None]
    kept = []
    for entry, judged in zip(group, found, strict=True):
        if judged is None:
            results.note(entry, "no kernel")
        else:
            kernels, shapes = judged
            kept.append(replace(entry, kernels=kernels, shapes=shapes))
    return kept


def find_kernels(entry: Entry) -> tuple[str, list[tuple[int, ...]]] | None:
    """Return LiteRT's kernels for an operator, and its shapes; None if LiteRT cannot compute it.

    The process may end.
    """
    if isinstance(entry.case, Whole):
        return REFERENCE, []
    data, limits = build([entry])
    for kernels in (REFERENCE, OPTIMIZED):
        try:
            (sample,) = random_samples(data, 1, 1, limits, kernels)
            interpreter = make_interpreter(data, kernels)
            interpreter.allocate_tensors()
            for detail in interpreter.get_input_details():
                interpreter.set_tensor(detail["index"], sample[detail["name"]])
            interpreter.invoke()
        except (RuntimeError, ValueError):
            continue
        details = interpreter.get_output_details()
        return kernels, [interpreter.get_tensor(d["index"]).shape for d in details]
    return None


def import_accepted(
    group: Sequence[Entry], results: Results
) -> tuple[Sequence[Entry], bytes, Limits, Imported | None]:
    """Import the operators as one network, without those that are rejected.

    Returns the accepted operators, the bytes and limits of their network, and the imported network.
    """
    suspected = read_pairs("rejected")
    group = [
        entry
        for entry in group
        if (entry.case.kind, entry.dtype) not in suspected or not is_rejected(entry, results)
    ]
    while group:
        data, limits = build(group)
        try:
            return group, data, limits, tflite.import_model(data, "model", {})
        except UserError as error:
            named = find_named(group, str(error))
            rejected = {entry for entry in named or group if is_rejected(entry, results)}
        group = [entry for entry in group if entry not in rejected]
    return group, b"", {}, None


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
        tflite.import_model(build([entry])[0], "model", {})
    except UserError as error:
        results.note(entry, "rejected", str(error))
        return True
    return False


def run_group(group: Sequence[Entry], results: Results) -> None:
    """Run operators as one model, or in two halves if one of them cannot be compiled or judged."""
    group, data, limits, imported = import_accepted(group, results)
    if imported is None:
        return
    states = imported[1].states
    try:
        samples = random_samples(data, 3, 1, limits, OPTIMIZED)
        expected = tflite.run_reference(data, samples, states).outputs
        found = run_imported(imported, samples)
    except Exception as error:  # a traceback is wrong too
        if len(group) > 1:
            half = len(group) // 2
            run_group(group[:half], results)
            run_group(group[half:], results)
        elif not isinstance(error, UserError | RuntimeError):
            results.note(group[0], "wrong", repr(error))
        elif "reference" in str(error):
            results.note(group[0], "no kernel")
        else:
            results.note(group[0], "rejected", str(error))
        return
    position = 0
    for entry in group:
        whole = isinstance(entry.case, Whole)
        end = len(found[0]) if whole else position + getattr(entry.case, "outputs", 1)
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
    if found.dtype.kind != "f":
        return "wrong"
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
    parser.add_argument("--types", nargs="+", choices=TYPES, default=[*TYPES])
    parser.add_argument(
        "--complete", action="store_true", help="all operators and types; write the results"
    )
    parser.add_argument("--only", type=int, metavar="NUMBER", help="print one operator's outcome")
    stated = parser.parse_args()
    if stated.only is not None:
        missing = () if stated.complete else list_missing()
        return run_one([*draw(stated.count, stated.seed, stated.types, missing)][stated.only])
    total: Counter[str] = Counter()
    for results in sweep(stated.count, stated.seed, stated.types, stated.complete):
        total = sum(results.counts.values(), Counter())
        print(", ".join(f"{total[name]} {name}" for name in COLUMNS[2:7]), flush=True)
        if stated.complete:
            write_results(results, stated.types)
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
