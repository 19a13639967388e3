"""The first files of a user's repository."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from firmwright import __version__
from firmwright.codegen.templates import make_environment, render
from firmwright.project.new_repository import (
    WORKFLOWS,
    list_debian_packages,
    name_requirement,
    write_new_repository,
)
from firmwright.toolchain import load_platform

COMMIT = "5c7b67fa0123456789abcdef0123456789abcdef"
GIT = f'{{"url": "https://a.b/c", "vcs_info": {{"vcs": "git", "commit_id": "{COMMIT}"}}}}'


@pytest.mark.parametrize(
    ("origin", "requirement"),
    [
        (None, f"firmwright=={__version__}"),
        ('{"url": "file:///a", "dir_info": {"editable": true}}', f"firmwright=={__version__}"),
        (GIT, f'"firmwright @ git+https://a.b/c@{COMMIT}"'),
    ],
)
def test_a_workflow_installs_this_firmwright(origin: str | None, requirement: str) -> None:
    assert name_requirement(origin) == requirement


@pytest.mark.parametrize(
    ("platform", "packages"),
    [
        ("rv32-bare", []),  # zig and unicorn are Python packages
        ("cortex-m55-bare", ["qemu-system-arm"]),
        ("avr-atmega2560", ["gcc-avr", "avr-libc"]),
    ],
)
def test_a_workflow_installs_the_programs_of_a_platform(platform: str, packages: list[str]) -> None:
    assert list_debian_packages(load_platform(platform)) == packages


def test_a_platform_without_emulators_needs_no_emulator() -> None:
    assert list_debian_packages(replace(load_platform("cortex-m55-bare"), emulators=())) == []


def test_all_steps_of_a_second_recipe_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = ("inputs", "outputs", "shapes", "open_shapes", "values", "named_inputs")
    network: dict[str, Any] = {"signature": None, **dict.fromkeys(empty, ())}
    for model, platform in (("a.onnx", "host"), ("b.onnx", "cortex-m55-bare")):
        write_new_repository(model, network, platform, "c", (), tmp_path)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith("firmware.yml builds other recipes; for this one, add the steps")
    assert lines[1].endswith("apt-get install --yes qemu-system-arm")
    assert [line.split("firmwright ")[1].split()[0] for line in lines if "firmwright " in line] == [
        "lock", "build", "diff"
    ]  # fmt: skip
    assert "pip install" not in "".join(lines)
    assert lines[-1] == "and build/b/*.tar.gz to the paths that are uploaded"


@pytest.mark.parametrize(
    ("git", "firmwright", "code"),
    [("true", 0, 0), ("true", 1, 0), ("true", 2, 1), ("false", 2, 0)],
    ids=["same", "other bytes", "failure", "new recipe"],
)
def test_gitlab_fails_if_the_comparison_fails(
    tmp_path: Path, git: str, firmwright: int, code: int
) -> None:
    values = {"name": "kws", "python": "3.12", "requirement": "firmwright", "packages": []}
    workflow = yaml.safe_load(render(make_environment(), WORKFLOWS["gitlab"][1], values))
    (tmp_path / "build/kws").mkdir(parents=True)
    programs = f"firmwright() {{ return {firmwright}; }}; git() {{ {git}; }}; "
    command = ["env", "CI_MERGE_REQUEST_DIFF_BASE_SHA=a", "bash", "-ec"]
    command.append(programs + workflow["firmware"]["script"][-1])
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == code
