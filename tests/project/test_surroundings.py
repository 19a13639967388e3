"""The files around firmwright: hooks, image, development container and editor tasks."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import yaml

from firmwright.codegen.templates import read_template
from firmwright.project.new_repository import list_debian_packages
from firmwright.toolchain import load_platform, platform_names
from tests.quality.test_repository import ROOT

PLACE = re.compile(r"(\S+\.yaml):(\d+):(\d+): (.*)")


def run_hook(name: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    (entry,) = [hook["entry"] for hook in hooks if hook["id"] == name]
    program, *command = entry.split()
    words = [sys.executable, "-m", program, *command, *arguments]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60)


def test_the_hook_rejects_recipes_with_errors(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"")
    (tmp_path / "good.yaml").write_text("model: m.onnx\n")
    (tmp_path / "bad.yaml").write_text("model: m.onnx\nplatfrm: host\n")
    assert run_hook("firmwright-recipes", tmp_path, "good.yaml").returncode == 0
    done = run_hook("firmwright-recipes", tmp_path, "good.yaml", "bad.yaml")
    assert done.returncode != 0
    assert "bad.yaml:2:1: platfrm: unknown key" in done.stderr


def test_the_hook_of_the_lock_checks_a_lock(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"")
    (tmp_path / "good.yaml").write_text("model: m.onnx\n")
    done = run_hook("firmwright-lock", tmp_path, "good.yaml")
    assert done.returncode == 1
    assert "m.onnx" in done.stderr or "good.lock" in done.stderr


def test_the_problem_matcher_finds_the_place_of_every_message() -> None:
    tasks = json.loads(read_template("repository/tasks.json.j2"))["tasks"]
    pattern = tasks[0]["problemMatcher"]["pattern"]
    found = 0
    for expected in (ROOT / "tests/failing").glob("*/expected.txt"):
        for line in expected.read_text("utf-8").splitlines():
            place = PLACE.match(line)
            if place:
                match = re.search(pattern["regexp"], f"plan:kws-host: {line}")
                assert match, line
                keys = ("file", "line", "column", "message")
                assert tuple(match[pattern[key]] for key in keys) == place.groups()
                assert re.search(pattern["regexp"], line)
                found += 1
    assert found > 100


def test_the_image_has_the_programs_of_every_platform() -> None:
    image = (ROOT / "Dockerfile").read_text("utf-8").split()
    for name in platform_names():
        assert {*list_debian_packages(load_platform(name))} <= {*image}, name
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text("utf-8"))
    folder = ROOT / ".devcontainer"
    assert (folder / container["build"]["dockerfile"]).samefile(ROOT / "Dockerfile")
    assert (folder / container["build"]["context"]).samefile(ROOT)
