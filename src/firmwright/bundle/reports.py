"""Reads the reports inside bundles, and writes the page that compares two reports."""

from __future__ import annotations

import msgspec

from firmwright.bundle.archive import BrokenBundleError
from firmwright.bundle.bundle import Bundle, read_json
from firmwright.report.difference import Difference
from firmwright.report.report import REPORT_VERSION, Report
from firmwright.report.two_builds import render_comparison

REPORT = "report/report.json"


def render_bundles(before: Bundle, after: Bundle, found: Difference) -> str:
    """Return the page that compares two bundles.

    Raises BrokenBundleError if a report cannot be read.
    """
    return render_comparison(read_report(before), read_report(after), found)


def read_report(bundle: Bundle) -> Report:
    """Return a bundle's report.

    Raises BrokenBundleError if the report is missing, has another version or does not fit its
    schema.
    """
    if REPORT not in bundle.files:
        raise BrokenBundleError(
            f"{bundle.path}: the bundle has no {REPORT}; build the bundle with this firmwright"
        )
    content = read_json(bundle.files[REPORT], f"{bundle.path}: {REPORT}")
    version = content.get("report_version") if isinstance(content, dict) else None
    if version != REPORT_VERSION:
        raise BrokenBundleError(
            f"{bundle.path}: {REPORT} has version {version}; expected {REPORT_VERSION}: build the "
            "bundle with this firmwright"
        )
    try:
        return msgspec.convert(content, Report)
    except msgspec.ValidationError as error:
        raise BrokenBundleError(
            f"{bundle.path}: {REPORT} does not fit its schema: {error}; build the bundle again"
        ) from None
