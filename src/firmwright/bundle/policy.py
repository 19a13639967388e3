"""What a bundle has to be, stated in a YAML file, and whether one is that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from firmwright.bundle.bundle import Bundle, read_bundle
from firmwright.bundle.signing import UntrustedBundleError, read_public_key, verify_signatures
from firmwright.documents.document import Document, load_document
from firmwright.errors import Diagnostic, DiagnosticError


class PolicyError(DiagnosticError, UntrustedBundleError):
    """What of a policy a bundle does not meet, each at its place in the policy."""


@cache
def load_policy_schema() -> dict[str, Any]:
    text = files("firmwright.bundle").joinpath("policy.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def verify_bundle(path: Path, policy: Path, envelope: Path) -> Bundle:
    """Return a bundle that is whole, signed as the policy demands, and what it asks for.

    Raises BrokenBundleError where bundle or envelope cannot be read, UntrustedBundleError where
    they are not what the policy asks for, and DiagnosticError for a wrong policy.
    """
    stated = load_document(policy, load_policy_schema())
    keys = [read_public_key(policy.parent / name) for name in stated.data["keys"]]
    wanted = stated.data["signatures"]
    if wanted > len({key.keyid for key in keys}):
        raise DiagnosticError(
            [stated.make_diagnostic(("signatures",), f"{wanted} are demanded of {len(keys)} keys")]
        )
    bundle = read_bundle(path)
    verify_signatures(bundle, envelope, keys, wanted)
    unmet = list(find_unmet(bundle, stated))
    if unmet:
        raise PolicyError(unmet)
    return bundle


def find_unmet(bundle: Bundle, policy: Document) -> Iterator[Diagnostic]:
    """Yield what of the policy's keys the bundle does not meet."""
    manifest = bundle.manifest
    found = {
        "name": manifest["name"],
        "platform": manifest["platform"],
        "recipe": manifest["recipe"]["sha256"],
        "model": manifest["model"]["sha256"],
    }
    for key, value in found.items():
        if policy.data.get(key, value) != value:
            yield policy.make_diagnostic((key,), f"{bundle.path} has {value}")
