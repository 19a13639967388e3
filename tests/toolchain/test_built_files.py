"""Files that were built once are found again, unless they are damaged."""

from __future__ import annotations

from pathlib import Path

from firmwright.toolchain.built_files import find_kept, keep


def test_a_damaged_file_counts_as_none(tmp_path: Path) -> None:
    def make(content: bytes) -> Path:
        unfinished = tmp_path / "unfinished"
        unfinished.write_bytes(content)
        return keep(unfinished, tmp_path, "counter-1", ".so")

    assert find_kept(tmp_path, "counter-1", ".so") is None
    made = make(b"whole")
    assert find_kept(tmp_path, "counter-1", ".so") == made
    assert find_kept(tmp_path, "counter", ".so") is None
    for damaged in (b"wholE", b"", b"whole\0"):
        made.write_bytes(damaged)
        assert find_kept(tmp_path, "counter-1", ".so") is None
    assert make(b"whole") == find_kept(tmp_path, "counter-1", ".so") == made
