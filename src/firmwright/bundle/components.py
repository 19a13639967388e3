"""Describes the parts and tools of a firmware, for SBOMs in CycloneDX and SPDX."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata

LICENSE_CLASSIFIER = "License :: OSI Approved :: "
LONGEST_LICENSE = 60
"""The maximum number of characters. Some packages state the whole text of their license."""


@dataclass(frozen=True)
class License:
    """A license: an SPDX ``expression``, or the ``name`` in a package's metadata.

    ``expression`` and ``name`` are empty if no license is stated.
    """

    expression: str = ""
    name: str = ""


@dataclass(frozen=True)
class Component:
    """A part: ``kind`` is ``library``, ``model``, ``data`` or ``tool``.

    A part is in the firmware if it is ``included``. The build used the other parts to make the
    firmware. ``version``, ``purl`` and ``sha256`` are empty for unknown values.
    """

    kind: str
    name: str
    included: bool
    version: str = ""
    purl: str = ""
    sha256: str = ""
    license: License = License()
    description: str = ""


@dataclass(frozen=True)
class ReleaseFacts:
    """The facts that the recipe states about a release. ``time`` is in UTC, in ISO 8601."""

    version: str
    supplier: str
    author: str
    time: str


@dataclass(frozen=True)
class BillOfMaterials:
    """A firmware and its parts. ``sha256`` is the digest of the firmware's image.

    ``stages`` are the descriptions of the build stages, in order. ``metrics`` maps names to
    measured accuracies of the firmware. ``release`` is None if the recipe states no release.
    """

    name: str
    platform: str
    description: str
    sha256: str
    components: tuple[Component, ...]
    stages: Mapping[str, str]
    metrics: Mapping[str, float]
    release: ReleaseFacts | None = None

    @property
    def identity(self) -> str:
        """The SHA-256 of the image, or of the image's digest and the facts of the release."""
        if self.release is None:
            return self.sha256
        facts = json.dumps((self.sha256, *astuple(self.release)))
        return hashlib.sha256(facts.encode()).hexdigest()


def make_package(name: str, version: str) -> Component:
    """Return a tool, with its license if the tool is a Python package."""
    try:
        license = read_license(name)
    except PackageNotFoundError:
        number = re.search(r"\d+(\.\d+)+", version)
        return Component(
            "tool", name, False, version, f"pkg:generic/{name}@{number[0]}" if number else ""
        )
    return Component("tool", name, False, version, f"pkg:pypi/{name}@{version}", "", license)


@cache
def read_license(name: str) -> License:
    """Return the license of an installed package: an expression, a short text, or a classifier."""
    stated = metadata(name)
    for expression in stated.get_all("License-Expression") or ():
        return License(expression=expression)
    for text in stated.get_all("License") or ():
        if text.strip() and "\n" not in text and len(text) <= LONGEST_LICENSE:
            return License(name=text.strip())
    licenses = [c for c in stated.get_all("Classifier") or () if c.startswith(LICENSE_CLASSIFIER)]
    return License(name=licenses[0].removeprefix(LICENSE_CLASSIFIER)) if licenses else License()


def digest_all(digests: Mapping[str, str] | tuple[str, ...]) -> str:
    """Return one SHA-256 of several digests, in the order of the digests."""
    listed = digests.items() if isinstance(digests, Mapping) else ((d, "") for d in digests)
    text = "".join(f"{name} {digest}\n" for name, digest in listed)
    return hashlib.sha256(text.encode()).hexdigest()
