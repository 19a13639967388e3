"""Writes the SBOM in the form of CycloneDX 1.7, https://cyclonedx.org/docs/1.7/json.

The SBOM has no random number, and its only time is the release time of the recipe. Therefore the
bytes of the SBOM depend only on the bundle.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

from firmwright.bundle.components import BillOfMaterials, Component, License, ReleaseFacts

FILE = "sbom/firmware.cdx.json"
"""The path of the SBOM in a bundle."""

TYPES = {
    "library": "library",
    "model": "machine-learning-model",
    "data": "data",
    "tool": "application",
}
TASKS = {"run": "test", "accuracy": "test", "bundle": "release"}
"""CycloneDX's term for the work of a stage. The default is "build"."""


def make_cyclonedx(bill: BillOfMaterials) -> dict[str, Any]:
    """Return the document: parts are in ``components``, tools are in ``formulation``."""
    root = f"firmware:{bill.name}"
    included = [c for c in bill.components if c.included]
    made_by = [c for c in bill.components if not c.included]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.7.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.7",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, bill.identity)}",
        "version": 1,
        "metadata": {
            **describe_release(bill.release),
            "lifecycles": [{"phase": "build"}],
            "component": {
                "type": "firmware",
                "bom-ref": root,
                "name": bill.name,
                **describe_supply(bill.release),
                "description": bill.description,
                "hashes": [{"alg": "SHA-256", "content": bill.sha256}],
                "properties": [{"name": "firmwright:platform", "value": bill.platform}],
            },
        },
        "components": [describe(component, bill) for component in included],
        "dependencies": [
            {"ref": root, "dependsOn": [make_reference(c) for c in included]},
            *({"ref": make_reference(c)} for c in included),
        ],
        "formulation": [
            {
                "bom-ref": "build",
                "components": [describe(component, bill) for component in made_by],
                "workflows": [make_workflow(bill)],
            }
        ],
    }


def describe_release(release: ReleaseFacts | None) -> dict[str, Any]:
    """Return the time and the author of the SBOM, or {} if there is no release."""
    return {"timestamp": release.time, "authors": [{"name": release.author}]} if release else {}


def describe_supply(release: ReleaseFacts | None) -> dict[str, Any]:
    """Return the version and the supplier of the firmware, or {} if there is no release."""
    return {"version": release.version, "supplier": {"name": release.supplier}} if release else {}


def make_reference(component: Component) -> str:
    return f"{component.kind}:{component.name}"


def describe(component: Component, bill: BillOfMaterials) -> dict[str, Any]:
    optional = {
        "version": component.version,
        "description": component.description,
        "purl": component.purl,
        "licenses": list(list_licenses(component.license)),
        "hashes": [{"alg": "SHA-256", "content": component.sha256}] if component.sha256 else [],
    }
    record: dict[str, Any] = {
        "type": TYPES[component.kind],
        "bom-ref": make_reference(component),
        "name": component.name,
        **{key: value for key, value in optional.items() if value},
    }
    if component.kind == "model" and bill.metrics:
        metrics = [{"type": name, "value": f"{value:g}"} for name, value in bill.metrics.items()]
        record["modelCard"] = {"quantitativeAnalysis": {"performanceMetrics": metrics}}
    return record


def list_licenses(license: License) -> Iterator[dict[str, Any]]:
    if license.expression:
        yield {"expression": license.expression}
    elif license.name:
        yield {"license": {"name": license.name}}


def make_workflow(bill: BillOfMaterials) -> dict[str, Any]:
    kinds = {stage: TASKS.get(stage, "build") for stage in bill.stages}
    return {
        "bom-ref": "workflow",
        "uid": "workflow",
        "taskTypes": sorted(set(kinds.values())),
        "tasks": [
            {
                "bom-ref": f"stage:{stage}",
                "uid": stage,
                "name": stage,
                "description": sentence,
                "taskTypes": [kinds[stage]],
            }
            for stage, sentence in bill.stages.items()
        ],
    }
