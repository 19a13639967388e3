"""The table of a build that is up to date."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from firmwright.pipeline.snapshot import UpToDate
from firmwright.report.rows import make_row
from firmwright.terminal.reporter import read_stored


@pytest.mark.parametrize("packed", [False, True])
def test_only_exports_of_the_bundle_are_shown(tmp_path: Path, packed: bool) -> None:
    """An earlier build with the key `export` left the folder of the exports."""
    exports, bundle = tmp_path / "exports", tmp_path / "bundle"
    (exports / "cmake").mkdir(parents=True)
    bundle.mkdir()
    (bundle / "summary.json").write_text('[{"label": "RAM", "parts": []}]')
    path = "exports/cmake/CMakeLists.txt" if packed else "src/network.c"
    manifest = bundle / "manifest.json"
    manifest.write_text(json.dumps({"files": [{"path": path}]}))
    _, *more = read_stored(UpToDate("build:kws", "kws", "kws.tar.gz", str(manifest)))
    assert more == ([make_row("exports", f"cmake in {exports}")] if packed else [])
