"""Different projects have different build ids, and equal projects have equal ones."""

from __future__ import annotations

import json
from pathlib import Path

from firmwright.project.build_id import (
    UNKNOWN,
    format_bytes,
    list_stating,
    read_build_id,
    state_build_id,
)


def state(folder: Path, constant: int = 1, compiler: str = "zig 1") -> str:
    """Write a project of four files, and return its id."""
    for name in ("demo", "network"):
        (folder / name).mkdir(parents=True)
    (folder / "network/kws_build_id.h").write_text(f'#define KWS_BUILD_ID "{UNKNOWN}"\n')
    (folder / "network/kws_interface.json").write_text(json.dumps({"build_id": UNKNOWN}))
    (folder / "network/kws_weights.c").write_text(f"const int weights[] = {{{constant}}};\n")
    (folder / "demo/main.c").write_text(f".byte {format_bytes(UNKNOWN)}\n")
    return state_build_id(folder, list_stating("kws"), compiler)


def test_all_places_state_the_same_id(tmp_path: Path) -> None:
    found = state(tmp_path)
    assert len(found) == 40
    assert (tmp_path / "network/kws_build_id.h").read_text() == f'#define KWS_BUILD_ID "{found}"\n'
    assert read_build_id(tmp_path, "kws") == found
    listed = (tmp_path / "demo/main.c").read_text().removeprefix(".byte ").split(", ")
    assert bytes(int(byte, 16) for byte in listed).hex() == found


def test_what_decides_gives_another_id(tmp_path: Path) -> None:
    same = [state(tmp_path / "a"), state(tmp_path / "b")]
    others = [state(tmp_path / "c", constant=2), state(tmp_path / "d", compiler="zig 2")]
    assert len({*same}) == 1
    assert len({*same, *others}) == 3
