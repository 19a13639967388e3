"""Builds the packages of firmwright.

The folders at the top of the repository become packages of firmwright. The wheel contains an SBOM
as PEP 770 defines it, and has the same bytes on every machine.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from setuptools.build_meta import *  # noqa: F403  this module is the backend that pip calls
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ON_TOP = ("recipes", "tasks", "templates", "toolchains")
"""The packages of firmwright that are folders at the top of the repository."""

FIRST_TIME = "315532800"
"""The beginning of 1980: no archive has an earlier time."""


class PackagesOnTop(build_py):
    """Adds the folders at the top to the packages of a wheel and of an sdist.

    Only this command knows them. For setuptools the project has one root, ``src``, so an editable
    installation is a path file, which type checkers and editors understand.
    """

    def finalize_options(self) -> None:
        """Return the folder of each package."""
        super().finalize_options()
        if not self.editable_mode:
            self.packages = [*self.packages, *(f"firmwright.{name}" for name in ON_TOP)]
            self.package_dir |= {f"firmwright.{name}": name for name in ON_TOP}


class WheelWithSbom(bdist_wheel):
    """Adds the SBOM before the wheel is packed."""

    def write_wheelfile(self, wheelfile_base: str, *words: str) -> None:
        """Write the metadata, with equal modes and times on every machine."""
        super().write_wheelfile(wheelfile_base, *words)
        file = Path(wheelfile_base, "sboms", "firmwright.cdx.json")
        file.parent.mkdir(exist_ok=True)
        stated = self.distribution.metadata
        required = self.distribution.install_requires
        bill = make_bill(stated.get_version(), stated.license_expression, required)
        file.write_text(json.dumps(bill, indent=1) + "\n", encoding="utf-8")
        for path in Path(self.bdist_dir).rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        os.environ.setdefault("SOURCE_DATE_EPOCH", FIRST_TIME)


def make_bill(version: str, license: str, required: list[str]) -> dict[str, Any]:
    """Return CycloneDX 1.7 for firmwright and its requirements, none of which is in the wheel."""
    parts = [describe(Requirement(text)) for text in sorted(required)]
    root = f"pkg:pypi/firmwright@{version}"
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.7.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.7",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": "firmwright",
                "version": version,
                "licenses": [{"expression": license}],
                "purl": root,
            }
        },
        "components": parts,
        "dependencies": [{"ref": root, "dependsOn": [part["bom-ref"] for part in parts]}],
    }


def describe(requirement: Requirement) -> dict[str, Any]:
    """Return a package that is installed next to the wheel, in one of the versions that fit."""
    ranges = sorted(str(part).removeprefix("==") for part in requirement.specifier)
    condition = {"name": "firmwright:condition", "value": str(requirement.marker)}
    return {
        "type": "library",
        "bom-ref": f"pkg:pypi/{requirement.name}",
        "name": requirement.name,
        "isExternal": True,
        **({"versionRange": f"vers:pypi/{'|'.join(ranges)}"} if ranges else {}),
        "purl": f"pkg:pypi/{requirement.name}",
        **({"properties": [condition]} if requirement.marker else {}),
    }
