"""Several builds fetch a file by its digest at once."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from firmwright.data.fetch import fetch_file
from firmwright.data.sample_sources import DataFile

CONTENT = bytes(1 << 23)
"""Bytes of a file that is so large that the builds write at the same time."""


def test_builds_for_several_platforms_fetch_the_same_file_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror, cache = tmp_path / "mirror", tmp_path / "cache"
    mirror.mkdir()
    (mirror / "net.bin").write_bytes(CONTENT)
    monkeypatch.setenv("FIRMWRIGHT_MIRROR", str(mirror))
    file = DataFile(path=None, url=None, sha256=hashlib.sha256(CONTENT).hexdigest())
    with ThreadPoolExecutor(8) as pool:
        for _ in range(2):
            fetched = [pool.submit(fetch_file, file, cache) for _ in range(8)]
            (kept,) = {each.result() for each in fetched}
            assert kept.read_bytes() == CONTENT
            assert [*kept.parent.iterdir()] == [kept]
            kept.unlink()
