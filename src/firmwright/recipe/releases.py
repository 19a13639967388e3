"""Defines the facts of a release, and rejects facts that would make the SBOM invalid."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from firmwright.documents.schema_check import Finding, quote

NAME = re.compile(r"(DocumentRef-[A-Za-z0-9.-]+:(?=LicenseRef-))?[A-Za-z0-9.-]*[A-Za-z0-9]\+?")
"""The name of a license or of an exception.

A list of all names would not contain later licenses.
"""


class Release(msgspec.Struct, frozen=True):
    """The facts of a release for the SBOM. ``time`` is in UTC. Licenses are SPDX expressions."""

    version: str
    supplier: str
    time: str
    author: str | None = None
    model_license: str | None = None
    data_license: str | None = None


def find_release_errors(data: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield a time on a day that does not exist, and licenses that are not SPDX expressions.

    Values of the wrong type are skipped, because the schema has reported them.
    """
    stated = data.get("release")
    release = stated if isinstance(stated, dict) else {}
    time = release.get("time")
    if isinstance(time, str) and not is_time(time):
        message = f"{quote(time)} is not a day of the calendar; correct the date"
        yield Finding(("release", "time"), message)
    for key in ("model_license", "data_license"):
        license = release.get(key)
        if isinstance(license, str) and not is_license_expression(license):
            message = (
                f"{quote(license)} is not an SPDX expression; expected names such as Apache-2.0, "
                "joined by AND, OR or WITH, or LicenseRef-Name for another license"
            )
            yield Finding(("release", key), message)


def is_time(text: str) -> bool:
    try:
        datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        return False
    return True


def is_license_expression(text: str) -> bool:
    """Return whether a text follows the grammar of license expressions (SPDX 3.0.1, annex B)."""
    tokens = re.findall(r"[()]|[^() ]+", text)
    reserved = ("AND", "OR", "WITH", "(", ")")
    terms = (w if w in reserved else "x" if NAME.fullmatch(w) else "?" for w in tokens)
    reduced, shorter = "", " ".join(terms).replace("x WITH x", "x")
    while shorter != reduced:
        reduced, shorter = shorter, re.sub(r"x (AND|OR) x|\( x \)", "x", shorter)
    return reduced == "x"
