"""Describes the inputs of a bundle, as an in-toto statement with SLSA's provenance.

The statement depends only on the bundle. Therefore a receiver can compute the statement again to
check a signed statement. Sources: the in-toto attestation framework's Statement v1 and SLSA 1.2's
provenance v1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from firmwright.bundle.bundle import Bundle

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
BUILD_TYPE = "tag:firmwright,2026:recipe/v1"
"""The type of the build, which defines ``externalParameters``: the resolved recipe."""


def make_statement(bundle: Bundle) -> dict[str, Any]:
    """Return the statement of a bundle. The subject is the digest of the archive."""
    manifest = bundle.manifest
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": f"{bundle.folder}.tar.gz", "digest": {"sha256": bundle.sha256}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"recipe": manifest["recipe"]["resolved"]},
                "internalParameters": {
                    "platform": manifest["platform"],
                    "target": manifest["target"],
                    "recipe": {"sha256": manifest["recipe"]["sha256"]},
                    "buildId": manifest["build_id"],
                    "stages": [
                        {"name": name, "description": sentence}
                        for name, sentence in manifest["stages"].items()
                    ],
                },
                "resolvedDependencies": list(list_dependencies(bundle)),
            },
            "runDetails": {
                "builder": {
                    "id": "tag:firmwright,2026:builder",
                    "version": {"firmwright": manifest["versions"].get("firmwright", "")},
                },
                "byproducts": [
                    {"name": entry["path"], "digest": {"sha256": entry["sha256"]}}
                    for entry in manifest["files"]
                ],
            },
        },
    }


def list_dependencies(bundle: Bundle) -> Iterator[dict[str, Any]]:
    """Yield all entries of the build's lock: files, samples, tools, and the versions of tools."""
    manifest = bundle.manifest
    url = manifest["recipe"]["resolved"]["model"].get("url")
    model = {"name": "model", "digest": {"sha256": manifest["model"]["sha256"]}}
    if "model_signature" in manifest:
        model["annotations"] = {"signature": manifest["model_signature"]}
    yield {**model, "uri": url} if url else model
    for name, digest in manifest["inputs"]["files"].items():
        yield {"name": name, "digest": {"sha256": digest}}
    for purpose, digests in manifest["inputs"]["samples"].items():
        for number, digest in enumerate(digests):
            yield {"name": f"{purpose} sample {number}", "digest": {"sha256": digest}}
    for name, digest in manifest["inputs"].get("programs", {}).items():
        yield {"name": f"files that {name} opens", "digest": {"sha256": digest}}
    for name, version in manifest["versions"].items():
        yield {"name": name, "annotations": {"version": version}}


def encode_statement(statement: dict[str, Any]) -> bytes:
    """Return the bytes for the signature, which depend only on the statement."""
    text = json.dumps(statement, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8")
