"""Checks a bundle against a policy: a YAML file with requirements."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from firmwright.bundle import cyclonedx
from firmwright.bundle.archive import BrokenBundleError
from firmwright.bundle.bundle import AGAIN, Bundle, read_bundle, read_json
from firmwright.bundle.signing import UntrustedBundleError, read_public_key, verify_signatures
from firmwright.documents.document import Document, load_document
from firmwright.documents.schema_check import read_schema
from firmwright.errors import Diagnostic, DiagnosticError

NO_LICENSE = "NOASSERTION"
"""SPDX's term for a license that is not stated."""

CORRECT = "verify another bundle, or correct the policy"


class PolicyError(DiagnosticError, UntrustedBundleError):
    """Raised with each requirement of the policy that the bundle does not meet."""


def verify_bundle(path: Path, policy: Path, envelope: Path) -> Bundle:
    """Return a complete bundle that has the policy's signatures and meets its requirements.

    Raises BrokenBundleError if the bundle or the envelope cannot be read. Raises
    UntrustedBundleError if the bundle does not meet the policy, and DiagnosticError if the policy
    is wrong.
    """
    stated = load_document(policy, read_schema("bundle", "policy.schema.json"))
    keys = [read_public_key(policy.parent / name) for name in stated.data["keys"]]
    wanted = stated.data["signatures"]
    if wanted > len({key.keyid for key in keys}):
        message = f"{wanted} signatures are required, but the policy has {len(keys)} keys"
        raise DiagnosticError(
            [stated.make_diagnostic(("signatures",), f"{message}; add keys, or lower the number")]
        )
    bundle = read_bundle(path)
    verify_signatures(bundle, envelope, keys, wanted)
    unmet = list(find_unmet(bundle, stated))
    if unmet:
        raise PolicyError(unmet)
    return bundle


def find_unmet(bundle: Bundle, policy: Document) -> Iterator[Diagnostic]:
    """Yield the keys of the policy that the bundle does not meet."""
    manifest = bundle.manifest
    values = {
        "name": manifest["name"],
        "platform": manifest["platform"],
        "recipe": manifest["recipe"]["sha256"],
        "model": manifest["model"]["sha256"],
    }
    for key, value in values.items():
        if policy.data.get(key, value) != value:
            yield policy.make_diagnostic((key,), f"{bundle.path} has {value}; {CORRECT}")
    counter = manifest["recipe"]["resolved"].get("counter", 0)
    if counter < policy.data.get("counter", 0):
        yield policy.make_diagnostic(
            ("counter",), f"{bundle.path} has {counter}, which is lower; {CORRECT}"
        )
    if "licenses" in policy.data:
        allowed = policy.data["licenses"]
        wrong = [f"{n} ({terms})" for n, terms in list_licenses(bundle) if terms not in allowed]
        if wrong:
            message = (
                f"{bundle.path} contains {', '.join(wrong)}, which the list does not contain; "
                f"{CORRECT}"
            )
            yield policy.make_diagnostic(("licenses",), message)


def list_licenses(bundle: Bundle) -> list[tuple[str, str]]:
    """Return the parts of the firmware and their licenses according to the bundle's SBOM.

    Raises BrokenBundleError if the SBOM is missing or is not in the form that firmwright writes.
    """
    if cyclonedx.FILE not in bundle.files:
        raise BrokenBundleError(f"{bundle.path}: the SBOM {cyclonedx.FILE} is missing; {AGAIN}")
    content = read_json(bundle.files[cyclonedx.FILE], cyclonedx.FILE)
    try:
        return [(part["name"], read_license(part)) for part in content["components"]]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise BrokenBundleError(f"{bundle.path}: {cyclonedx.FILE} is damaged; {AGAIN}") from None


def read_license(part: dict[str, Any]) -> str:
    (stated,) = part.get("licenses") or [{"expression": NO_LICENSE}]
    return str(stated["expression"] if "expression" in stated else stated["license"]["name"])
