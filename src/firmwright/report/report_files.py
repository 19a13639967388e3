"""Writes all files of a bundle's report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firmwright.ir.records import encode_record, format_record
from firmwright.report.page import render_page
from firmwright.report.report import SCHEMA_NAME, Report
from firmwright.report.trace import write_trace
from firmwright.report.viewers import make_graph, make_overlays, write_csv

PAGE = "report.html"


def write_files(report: Report, code: Mapping[int, str]) -> Mapping[str, bytes]:
    """Return the page, and a folder next to it with the facts of the page for programs.

    ``code`` maps the numbers of layers to their C code.
    """
    overlays = {f"over_model_{name}.json": data for name, data in make_overlays(report).items()}
    explorer: dict[str, Any] = {**overlays, "compiled.json": make_graph(report)}
    trace = {"report/trace.perfetto-trace": write_trace(report)} if report.total else {}
    return {
        PAGE: render_page(report, code).encode("utf-8"),
        "report/report.json": format_record(report, SCHEMA_NAME).encode(),
        "report/layers.csv": write_csv(report.layers).encode("utf-8"),
        **trace,
        **{f"report/model_explorer/{name}": encode_record(d) for name, d in explorer.items()},
    }
