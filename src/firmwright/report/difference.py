"""Finds and formats the differences that ``firmwright diff`` prints about two bundles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from firmwright.report.rows import align_columns

Manifest = Mapping[str, Any]
Values = dict[str, Any]
"""The values to compare. The keys are the names."""
FIRMWARE = "firmware"
"""The name of the built firmware in records of accuracy."""
Facts = dict[str, int | float | str]
"""The numbers and texts of a verdict. The keys are the names."""


@dataclass(frozen=True)
class Change:
    """A value that differs. A side is null if only the other bundle has the value."""

    area: str
    name: str
    before: Any
    after: Any


@dataclass(frozen=True)
class Difference:
    """The output of ``firmwright diff --json``: the verdict, the changes, and digests of bundles.

    ``verdict`` contains the most important facts about both bundles, changed or not. Bundles with
    equal contents and different digests were packed by different versions of zlib.
    """

    before: str
    after: str
    before_sha256: str
    after_sha256: str
    verdict: tuple[Change, ...]
    changes: tuple[Change, ...]

    @property
    def is_same(self) -> bool:
        return self.before_sha256 == self.after_sha256


def find_changes(before: Manifest, after: Manifest) -> Iterator[Change]:
    """Yield the differences of two manifests, area by area. Every field belongs to one area."""
    for area, read in AREAS.items():
        old, new = read(before), read(after)
        for name in [*old, *(n for n in new if n not in old)]:
            if old.get(name) != new.get(name):
                yield Change(area, name, old.get(name), new.get(name))


def make_verdict(before: Manifest, after: Manifest) -> tuple[Change, ...]:
    """Return exactness, accuracy, time, memory and devices of both bundles, even if equal."""
    old, new = read_verdict(before), read_verdict(after)
    return tuple(Change("verdict", n, old.get(n), new.get(n)) for n in dict.fromkeys([*old, *new]))


def read_verdict(manifest: Manifest) -> Facts:
    """Return the facts of a bundle: exactness, accuracy, time, memory and devices."""
    return {name: value for name, value in _read_facts(manifest) if value is not None}


def _read_facts(manifest: Manifest) -> Iterator[tuple[str, int | float | str | None]]:
    run, memory = manifest["run"], manifest["memory"]
    accuracy, timeline = manifest["accuracy"], manifest["timeline"]
    if run is not None:
        yield "outputs", describe_outputs(run)
    if accuracy is not None:
        name = "top-1, %" if accuracy["labelled"] else "same class as the reference, %"
        yield name, accuracy["top1"].get(FIRMWARE)
        yield "metric", (accuracy["metric"] or {}).get(FIRMWARE)
        boxes = accuracy["boxes"] or {"networks": {}}
        for name, rates in boxes["networks"].items():
            if name == FIRMWARE:
                yield "mean average precision", rates["mean_average_precision"]
    if timeline is not None:
        yield timeline["unit"], timeline["total"]
        yield "milliseconds", timeline["milliseconds"]
        yield "microjoules", timeline.get("microjoules")
    yield "flash, bytes", memory["flash_bytes"]
    yield "RAM, bytes", memory["ram_bytes"]
    yield "stack, bytes", memory.get("stack", {}).get("bytes")
    operators: Counter[str] = Counter()
    for layer in manifest["layers"]:
        operators[layer["device"]] += len(layer["sources"])
    for device, count in operators.items():
        yield f"operators on {device}", count


def describe_outputs(*runs: Mapping[str, Any]) -> str:
    mismatches = sum(run["mismatches"] for run in runs)
    if mismatches:
        return f"{mismatches:,} of {sum(run['values'] for run in runs):,} values are wrong"
    return "within the tolerance" if any(run["differences"] for run in runs) else "exact"


def flatten(value: Any, path: str = "") -> Values:
    """Map the positions of leaves in plain data, such as ``run.inputs.x[0]``, to the leaves."""
    if isinstance(value, Mapping) and value:
        parts = [(f"{path}.{key}" if path else str(key), part) for key, part in value.items()]
    elif isinstance(value, list) and value:
        parts = [(f"{path}[{index}]", part) for index, part in enumerate(value)]
    else:
        return {path: value}
    return {name: leaf for key, part in parts for name, leaf in flatten(part, key).items()}


def read_devices(manifest: Manifest) -> Values:
    """Return the device of each operator of the model. The cuts of the regions have no effect."""
    layers = manifest["layers"]
    return {name: each["device"] for each in layers for name in each["sources"] or [each["name"]]}


def read_time(manifest: Manifest) -> Values:
    """Return the numbers of a timeline. Names contain the unit, because units must match."""
    timeline = manifest["timeline"]
    if timeline is None:
        return {}
    unit = timeline["unit"]
    each = {
        f"{', '.join(layer['sources']) or layer['name']}, {unit}": layer["end"] - layer["start"] + 1
        for layer in timeline["layers"]
    }
    shown = ("milliseconds", "microjoules", "clock", "source")
    facts = {key: timeline[key] for key in shown if key in timeline}
    return {f"in all, {unit}": timeline["total"], **facts, **each}


def read_files(manifest: Manifest) -> Values:
    return {
        file["path"]: f"{file['bytes']:,} bytes, {file['sha256'][:12]}"
        for file in manifest["files"]
    }


def read_key(*keys: str) -> Callable[[Manifest], Values]:
    """Return a reader of the leaves below top-level keys."""

    def read(manifest: Manifest) -> Values:
        stated = {key: manifest[key] for key in keys if manifest.get(key) is not None}
        return {name: value for name, value in flatten(stated).items() if value != {}}

    return read


AREAS: Mapping[str, Callable[[Manifest], Values]] = {
    "recipe": lambda manifest: flatten(manifest["recipe"]["resolved"]),
    "description": lambda manifest: {"description": manifest["recipe"].get("description")},
    "choice": read_key("name", "build_id", "platform", "target"),
    "model": read_key("model"),
    "device of an operator": read_devices,
    "time": read_time,
    "memory": read_key("memory"),
    "batch": read_key("batch"),
    "run": read_key("run", "not_run", "not_built"),
    "packages and tools": read_key("versions"),
    "other": read_key(
        "manifest_version", "stages", "arithmetic", "detection", "quantization", "accuracy",
        "comparison", "mapping", "stand_ins", "artifacts",
    ),
    "inputs": read_key("inputs"),
    "files": read_files,
}  # fmt: skip
"""The values of a manifest that each area compares."""


FOLDED = ("inputs", "files")
"""The areas that contain digests. In Markdown, the reader opens their tables."""


def format_difference(difference: Difference) -> str:
    if difference.is_same:
        return f"same: {difference.before_sha256}"
    lines: list[str] = []
    if not difference.changes:
        lines += ["The contents are equal; the archives were compressed differently.", ""]
    changes = (*difference.verdict, *difference.changes)
    for area, each in groupby(changes, key=lambda change: change.area):
        rows = [(f"  {c.name}", show(c.before), "→", show(c.after), rate(c)) for c in each]
        lines += [area, *align_columns(rows, "<><<<"), ""]
    lines += [f"before  {difference.before_sha256}  {difference.before}"]
    lines += [f"after   {difference.after_sha256}  {difference.after}"]
    return "\n".join(lines)


def format_markdown(difference: Difference) -> str:
    """Return the differences in Markdown, for a comment on a pull request."""
    names = f"`{difference.before}` and `{difference.after}`"
    if difference.is_same:
        return f"**Same bundle:** {names} (`{difference.before_sha256[:12]}`)."
    lines = [f"**Bundles differ:** {names} (`{difference.before_sha256[:12]}` → "
             f"`{difference.after_sha256[:12]}`)."]  # fmt: skip
    if not difference.changes:
        lines += ["", "The contents are equal; the archives were compressed differently."]
    changes = (*difference.verdict, *difference.changes)
    for area, each in groupby(changes, key=lambda change: change.area):
        folded = area in FOLDED
        lines += ["", f"<details><summary>{area}</summary>"] if folded else []
        lines += ["", f"| {area} | before | after | |", "|---|--:|--:|--:|"]
        for c in each:
            cells = (escape(c.name), escape(show(c.before)), escape(show(c.after)), rate(c))
            lines.append(f"| {' | '.join(cells)} |")
        lines += ["", "</details>"] if folded else []
    return "\n".join(lines)


def show(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else str(value)


def rate(change: Change) -> str:
    """Return the change of a number, "=" for equal values, '' for other values.

    The change is in percent, or in points for a number that is itself in percent.
    """
    before, after = change.before, change.after
    if before == after:
        return "="
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (before, after))
    if numbers and change.name.endswith(", %"):
        return f"{after - before:+.2f} points"
    return f"{100 * (after - before) / before:+.1f} %" if numbers and before else ""


def escape(text: str) -> str:
    """Return text that stays in its cell of a table in Markdown."""
    quoted = text.replace("&", "&amp;").replace("<", "&lt;")
    for mark in "\\`*_[]|":
        quoted = quoted.replace(mark, f"\\{mark}")
    return quoted
