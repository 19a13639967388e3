"""Writes the published JSON schemas of a build's files, or checks that they are up to date.

The command is ``python -m firmwright.report.schemas [--check]``.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import firmwright
from firmwright.ir.records import build_schema
from firmwright.project.interface import SCHEMA_FILE, NetworkInterface
from firmwright.recipe.lock import Lock
from firmwright.report.difference import Difference
from firmwright.report.explanation import Explanation
from firmwright.report.inspection import Inspection
from firmwright.report.layer_text import FollowedLayers
from firmwright.report.listings import Installed, ResolvedRecipe, TaskList
from firmwright.report.manifest import NetworksManifest, build_manifest_schema
from firmwright.report.outcomes import CheckedLocks, Outcomes, TaskInfo, Verification
from firmwright.report.report import build_report_schema

PACKAGE = Path(firmwright.__file__).parent


def build_schemas() -> dict[Path, dict[str, Any]]:
    return {
        PACKAGE / "project" / SCHEMA_FILE: build_schema(NetworkInterface),
        PACKAGE / "recipe" / "lock.schema.json": build_schema(Lock),
        PACKAGE / "report" / "difference.schema.json": build_schema(Difference),
        PACKAGE / "report" / "explanation.schema.json": build_schema(Explanation),
        PACKAGE / "report" / "followed_layers.schema.json": build_schema(FollowedLayers),
        PACKAGE / "report" / "inspection.schema.json": build_schema(Inspection),
        PACKAGE / "report" / "installed.schema.json": build_schema(Installed),
        PACKAGE / "report" / "manifest.schema.json": build_manifest_schema(),
        PACKAGE / "report" / "networks.schema.json": build_schema(NetworksManifest),
        PACKAGE / "report" / "locks.schema.json": build_schema(CheckedLocks),
        PACKAGE / "report" / "outcomes.schema.json": build_schema(Outcomes),
        PACKAGE / "report" / "task_info.schema.json": build_schema(TaskInfo),
        PACKAGE / "report" / "verification.schema.json": build_schema(Verification),
        PACKAGE / "report" / "report.schema.json": build_report_schema(),
        PACKAGE / "report" / "resolved_recipe.schema.json": build_schema(ResolvedRecipe),
        PACKAGE / "report" / "tasks.schema.json": build_schema(TaskList),
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m firmwright.report.schemas")
    parser.add_argument("--check", action="store_true", help="report stale schemas without writing")
    options = parser.parse_args(arguments)
    stale = 0
    for path, schema in build_schemas().items():
        text = json.dumps(schema, indent=1, ensure_ascii=False) + "\n"
        if not options.check:
            path.write_text(text, encoding="utf-8", newline="\n")
        elif path.read_text(encoding="utf-8") != text:
            print(f"{path} is stale; run: python -m firmwright.report.schemas", file=sys.stderr)
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
