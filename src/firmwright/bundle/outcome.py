"""Reads the outcome of a build, for the table of several builds and a fleet's next run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from firmwright.report.difference import describe_outputs
from firmwright.report.outcomes import Outcome

from .archive import read_capped
from .bundle import is_of_networks, parse_any_bundle

NOT_RUN = "not run"


def read_outcome(job: str, path: Path) -> Outcome:
    """Return the outcome of a bundle. Raises BrokenBundleError if the file is not a bundle."""
    bundle = parse_any_bundle(read_capped(path), path)
    return make_outcome(job, bundle.manifest, bundle.sha256)


def make_outcome(job: str, manifest: Mapping[str, Any], sha256: str = "") -> Outcome:
    read = read_networks if is_of_networks(manifest) else read_network
    return Outcome(job, sha256=sha256, **read(manifest))


def read_network(manifest: Mapping[str, Any]) -> dict[str, Any]:
    memory, batch, timeline = (manifest.get(key) for key in ("memory", "batch", "timeline"))
    assert memory is not None  # the manifest's schema requires this key
    keys = ("total", "unit", "source", "milliseconds", "microjoules")
    time = {key: timeline.get(key) for key in keys} if timeline else {}
    return {
        "exact": describe_outputs(manifest["run"]) if manifest["run"] else NOT_RUN,
        **time,
        "flash": memory["flash_bytes"],
        "ram": memory["ram_bytes"],
        "batch": batch["actual_batch_size"] if batch else None,
        "offload": compute_offload(manifest),
    }


def read_networks(manifest: Mapping[str, Any]) -> dict[str, Any]:
    run = manifest["run"]
    return {
        "exact": describe_outputs(*run["networks"].values()) if run else NOT_RUN,
        "flash": manifest["flash_bytes"],
        "ram": manifest["ram_bytes"],
    }


def compute_offload(manifest: Mapping[str, Any]) -> float | None:
    """Return the percentage of multiply-accumulates that other devices than the last device run.

    None if the target has only one device, or if the network has no multiply-accumulates.
    """
    *offered, last = (device["device"] for device in manifest["recipe"]["resolved"]["target"])
    layers = manifest["layers"]
    total: int = sum(layer["macs"] for layer in layers)
    if not offered or not total:
        return None
    kept: int = sum(layer["macs"] for layer in layers if layer["device"] == last)
    return round(100 * (total - kept) / total, 1)
