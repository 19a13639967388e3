"""Writes the generated pages, schemas and pictures: ``python -m tests.quality.generated``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from firmwright.ir.records import build_schema
from firmwright.project.interface import SCHEMA_FILE, NetworkInterface
from firmwright.recipe.lock import Lock
from firmwright.report.difference import Difference
from firmwright.report.explanation import Explanation
from firmwright.report.inspection import Inspection
from firmwright.report.layer_text import FollowedLayers
from firmwright.report.manifest import NetworksManifest, build_manifest_schema
from firmwright.report.outcomes import (
    CheckedLocks,
    Installed,
    Outcomes,
    ResolvedRecipe,
    TaskInfo,
    TaskList,
    Verification,
)
from firmwright.report.report import build_report_schema
from tests.quality.key_pages import render_description_files, render_recipe_page
from tests.quality.layers import ROOT, SOURCE, group, read_imports
from tests.quality.picture import PICTURE, draw

RECORDS: dict[str, type] = {
    f"project/{SCHEMA_FILE}": NetworkInterface,
    "recipe/lock.schema.json": Lock,
    "report/difference.schema.json": Difference,
    "report/explanation.schema.json": Explanation,
    "report/followed_layers.schema.json": FollowedLayers,
    "report/inspection.schema.json": Inspection,
    "report/installed.schema.json": Installed,
    "report/networks.schema.json": NetworksManifest,
    "report/locks.schema.json": CheckedLocks,
    "report/outcomes.schema.json": Outcomes,
    "report/task_info.schema.json": TaskInfo,
    "report/verification.schema.json": Verification,
    "report/resolved_recipe.schema.json": ResolvedRecipe,
    "report/tasks.schema.json": TaskList,
}
"""The published schemas in the source, and the dataclasses that define them."""
PAGES = ROOT / "docs" / "reference"


def build_schemas() -> dict[str, dict[str, Any]]:
    return {
        **{path: build_schema(kind) for path, kind in RECORDS.items()},
        "report/manifest.schema.json": build_manifest_schema(),
        "report/report.schema.json": build_report_schema(),
    }


def generate() -> dict[Path, str]:
    """Return the text of each generated file of the repository."""
    schemas = {
        SOURCE / path: json.dumps(schema, indent=1, ensure_ascii=False) + "\n"
        for path, schema in build_schemas().items()
    }
    return {
        **schemas,
        PAGES / "recipe.md": render_recipe_page(),
        PAGES / "description-files.md": render_description_files(),
        PICTURE: draw(group(read_imports())),
    }


def find_stale() -> dict[Path, str]:
    """Return the generated files that differ from the files of the repository."""
    return {
        path: text
        for path, text in generate().items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    }


if __name__ == "__main__":
    for path, text in find_stale().items():
        path.write_text(text, encoding="utf-8", newline="\n")
        print(f"wrote {path.relative_to(ROOT)}", file=sys.stderr)
