"""Reads the most important facts for a comparison of two builds from their manifests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

FIRMWARE = "firmware"
"""The name of the built firmware in records of accuracy."""

Manifest = Mapping[str, Any]
Facts = dict[str, int | float | str]
"""The numbers and texts of a verdict. The keys are the names."""


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
