"""Several builds fetch a file by its digest at once."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from firmwright.data.fetch import add_query, fetch_file
from firmwright.data.sample_sources import DataFile
from firmwright.errors import mask_addresses

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


@pytest.mark.parametrize("path", ["../evil", "%2e%2e/evil", "a/..%2f../evil", "..\\\\evil"])
def test_a_query_stays_in_the_folder_that_the_user_names(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRMWRIGHT_SIGNED_URLS", "http://h/mine/?sig=SECRET")
    assert add_query("http://h/mine/a.onnx") == "http://h/mine/a.onnx?sig=SECRET"
    assert "SECRET" not in add_query(f"http://h/mine/{path}/a.onnx")


@pytest.mark.parametrize(
    "address",
    [
        "https:me:SECRET@h/n",
        "HTTPS://me:SECRET@h/n",
        "https://h\\\\@me:SECRET@x/n",
        "https://h/n?REF=SECRET",
    ],
)
def test_a_message_masks_the_secrets_of_addresses(address: str) -> None:
    assert "SECRET" not in mask_addresses(f"model: url: '{address}' is not an address")
