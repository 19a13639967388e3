"""The tuned file is read as it was written, with any names."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmwright.errors import DiagnosticError
from firmwright.recipe.tuned import TunedLayer, TunedNetwork, read_tuned, write_tuned

LAYERS = {"no": TunedLayer("1e5", 7, "a: b", 9), "null": TunedLayer("#", 0, "'\"\\", 0)}
PLATFORMS = {
    "rv32-bare": TunedNetwork("zig", "c -specialize=auto", "0" * 64, LAYERS),
    "012": TunedNetwork("on", "npu, c", "12e4" * 16, {}),
}


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "net.tuned"
    assert write_tuned(path, PLATFORMS)
    assert read_tuned(path).platforms == PLATFORMS
    assert not write_tuned(path, dict(reversed(PLATFORMS.items())))


def test_all_that_does_not_fit_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "net.tuned"
    path.write_text("version: 1\nplatforms:\n  host: {toolchain: zig, target: c, layers: 3}\n")
    with pytest.raises(DiagnosticError) as caught:
        read_tuned(path)
    first, second = str(caught.value).splitlines()
    assert first.startswith(f"{path}:3:9: platforms.host: the key 'network' is missing")
    assert second.startswith(f"{path}:3:45: platforms.host.layers: expected a mapping")
