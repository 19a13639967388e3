"""Another person rebuilds a bundle; `rebuild` lists the code of a recipe before it runs."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from firmwright import bundle_commands
from firmwright.bundle.archive import BrokenBundleError
from firmwright.bundle.bundle import read_bundle
from firmwright.cli import make_parser
from firmwright.rebuild.rebuilt_bundle import Rebuilt, count_levels_up

from .conftest import Repository
from .test_trust import BUNDLE, change_manifest, firmwright, repack


def test_a_bundle_is_not_rebuilt_without_its_files_or_tools(
    built: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(built.environment, "FIRMWRIGHT_MIRROR", "")
    code, text = firmwright(built, "rebuild", BUNDLE)
    digest = hashlib.sha256((built.folder / "inputs.npz").read_bytes()).hexdigest()
    assert (code, f"  inputs.npz, sha256 {digest}" in text) == (2, True)
    other = repack(built.folder / BUNDLE, tmp_path / "other.tar.gz", change_manifest)
    code, text = firmwright(built, "rebuild", str(other))
    assert (code, "  numpy 9.9" in text) == (2, True)
    key = tmp_path / "readable.pem"
    key.write_text("")
    code, text = firmwright(built, "rebuild", BUNDLE, "--attest", str(key))
    assert (code, "other users can read this key" in text) == (2, True)


def change_memory(manifest: dict[str, Any], _: Mapping[str, bytes]) -> None:
    manifest["memory"]["flash_bytes"] -= 4


def test_a_bundle_that_was_not_built_so_is_told(
    built: Repository,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The full build runs in tests/docs/test_shipping.py."""
    honest = read_bundle(built.folder / BUNDLE)
    other = repack(honest.path, tmp_path / "other.tar.gz", change_memory)
    monkeypatch.setattr(bundle_commands, "rebuild", lambda *_: Rebuilt(honest, tmp_path))
    assert bundle_commands.run_command(make_parser().parse_args(["rebuild", str(other)])) == 1
    printed = capsys.readouterr().out
    assert "memory.flash_bytes" in printed
    assert "first: manifest.json, memory.flash_bytes: " in printed


@pytest.mark.parametrize(
    ("name", "levels"), [("a.npz", 0), ("x/../a.npz", 0), ("../../m/a.npz", 2), ("x/../../a", 1)]
)
def test_files_are_put_around_the_recipe(name: str, levels: int) -> None:
    assert count_levels_up(name) == levels


@pytest.mark.parametrize("name", ["/etc/passwd", "..", "", "a\\b", "../" * 17 + "a", "\x1b[2J"])
def test_files_with_names_of_no_build_are_refused(name: str) -> None:
    with pytest.raises(BrokenBundleError):
        count_levels_up(name)


def test_code_of_a_recipe_is_told_before_it_runs_or_refused(repository: Repository) -> None:
    repository.write("npu.py", "import sys\nprint('it runs', file=sys.stderr)\n")
    repository.write("digits.yaml", "model: digits.onnx\ndevices: {npu: 'npu:NPU'}\n")
    code, text = firmwright(repository, "list", "digits.yaml")
    assert text.index("digits.yaml: runs custom Python: npu:NPU") < text.index("it runs")
    code, text = firmwright(repository, "list", "digits.yaml", "--no-user-code")
    assert code == 1
    assert "digits.yaml:2:16: devices.npu: a Python function; not allowed with" in text
    assert "it runs" not in text


def test_ctrl_c_ends_it_with_a_line_and_leaves_nothing(built: Repository, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "firmwright", "rebuild", BUNDLE, "--files", "."]
    environment = {**os.environ, **built.environment, "TMPDIR": str(tmp_path)}
    # The shell of a script lets its background programs ignore the signal.
    ignored = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        command, cwd=built.folder, env=environment, stderr=subprocess.PIPE, text=True
    )
    signal.signal(signal.SIGINT, ignored)
    with process:
        while not [*tmp_path.glob("firmwright-rebuild-*/build/*")]:
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, printed = process.communicate(timeout=60)
    assert (process.returncode, printed) == (130, "\ninterrupted\n")
    assert [*tmp_path.iterdir()] == []
