"""The first files of a user's repository."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from firmwright import __version__
from firmwright.cli import main
from firmwright.codegen.templates import make_environment, render
from firmwright.project.new_repository import write_new_repository
from firmwright.project.workflow import (
    WORKFLOWS,
    list_debian_packages,
    name_requirement,
    write_workflow,
)
from firmwright.toolchain import load_platform, load_toolchain
from tests.quality.test_repository import ROOT

COMMIT = "5c7b67fa0123456789abcdef0123456789abcdef"
GIT = f'{{"url": "https://a.b/c", "vcs_info": {{"vcs": "git", "commit_id": "{COMMIT}"}}}}'


@pytest.mark.parametrize(
    ("origin", "requirement"),
    [
        (None, f"firmwright=={__version__} --find-links wheels"),
        (
            '{"url": "file:///a", "dir_info": {"editable": true}}',
            f"firmwright=={__version__} --find-links wheels",
        ),
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
    found = load_platform(platform)
    toolchain = load_toolchain(found.toolchains[0])
    assert list_debian_packages(found, toolchain, next(iter(found.emulators), None)) == packages


def test_a_platform_without_emulators_needs_no_emulator() -> None:
    platform = load_platform("cortex-m55-bare")
    assert list_debian_packages(platform, load_toolchain("zig"), None) == []


def test_all_steps_of_a_second_recipe_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = ("inputs", "outputs", "shapes", "open_shapes", "values", "named_inputs")
    network: dict[str, Any] = {"signature": None, **dict.fromkeys(empty, ())}
    for model, platform in (("a.onnx", "host"), ("b.onnx", "cortex-m55-bare")):
        write_new_repository(model, network, platform, "c", (), tmp_path)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith("firmware.yml builds other recipes; for this recipe, add the steps")
    assert lines[1].endswith("apt-get install --yes qemu-system-arm")
    assert [line.split("firmwright ")[1].split()[0] for line in lines if "firmwright " in line] == [
        "lock", "build", "diff"
    ]  # fmt: skip
    assert "pip install" not in "".join(lines)
    assert lines[-1] == "and build/b/*.tar.gz to the paths that are uploaded"


def test_the_pins_that_a_users_file_lacks_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = "numpy==2.3.5 --hash=sha256:0\nPyYAML==6.0.3\ntvm==1.0.1\n"
    (tmp_path / "constraints.txt").write_text(mine)
    pins = ["numpy==2.3.5", "pyyaml==6.0.3", "tvm==1.0"]
    write_workflow("a.yaml", "a", (), pins, tmp_path, "azure")
    assert (tmp_path / "constraints.txt").read_text() == mine
    head, *lines = capsys.readouterr().err.splitlines()
    assert head.startswith(f"{tmp_path}/constraints.txt lacks versions of this environment")
    assert lines == ["tvm==1.0"]
    write_workflow("a.yaml", "a", (), pins[:2], tmp_path, "azure")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("git", "firmwright", "code"),
    [("true", 0, 0), ("true", 1, 0), ("true", 2, 1), ("false", 2, 0)],
    ids=["same", "other bytes", "failure", "new recipe"],
)
def test_gitlab_fails_if_the_comparison_fails(
    tmp_path: Path, git: str, firmwright: int, code: int
) -> None:
    values = {
        "name": "kws",
        "path": "kws",
        "python": "3.12",
        "requirement": "firmwright",
        "packages": [],
    }
    workflow = yaml.safe_load(render(make_environment(), WORKFLOWS["gitlab"][1], values))
    (tmp_path / "build/kws").mkdir(parents=True)
    programs = f"firmwright() {{ return {firmwright}; }}; git() {{ {git}; }}; "
    command = ["env", "CI_MERGE_REQUEST_DIFF_BASE_SHA=a", "bash", "-ec"]
    command.append(programs + workflow["firmware"]["script"][-1])
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == code


def test_every_workflow_and_the_action_install_both_kinds_of_packages(tmp_path: Path) -> None:
    """Stand-ins print the packages that apt-get would install, and the arguments of pip."""
    values: dict[str, Any] = {"name": "a", "path": "a", "python": "3.12"}
    values["requirement"] = "firmwright==1"
    values |= {"packages": ["gcc-avr", "avr-libc"]}
    texts = [render(make_environment(), template, values) for _, template in WORKFLOWS.values()]
    github, gitlab, azure = map(yaml.safe_load, texts)
    steps = {
        "action": yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))["runs"]["steps"],
        "github": github["jobs"]["build"]["steps"],
        "gitlab": [{"run": line} for line in gitlab["firmware"]["script"]],
        "azure": [{"run": step.get("script", "")} for step in azure["steps"]],
    }
    for name, lines in (("sudo", '"$@"'), ("apt-get", 'echo "$@"'), ("python", 'echo "$@"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{lines}\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    env = {"PATH": path, "PACKAGES": "gcc-avr avr-libc", "GITHUB_ACTION_PATH": "/action"}
    for service, known in steps.items():
        chosen = [s["run"] for s in known if re.search("apt-get|pip ", s.get("run", ""))]
        shown = subprocess.check_output(["bash", "-ec", "\n".join(chosen)], env=env, text=True)
        assert shown.splitlines()[:2] == ["update", "install --yes gcc-avr avr-libc"], service
        pip = "-m pip install firmwright==1 --constraint constraints.txt"
        if service == "action":
            pip = "-m pip install -r /action/constraints.txt\n-m pip install --no-deps /action"
        assert "\n".join(shown.splitlines()[2:]) == pip, service


def test_the_action_builds_several_recipes(tmp_path: Path) -> None:
    """A stand-in prints its arguments. Exit code 2 of the comparison fails the step."""
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))["runs"]["steps"]
    steps = [step["run"] for step in action if "firmwright " in step.get("run", "")]
    tool = tmp_path / "firmwright"
    tool.write_text('#!/bin/sh\necho "$@" >> calls\n[ "$1 $3" != "diff bad.yaml" ] || exit 2\n')
    tool.chmod(0o755)
    (tmp_path / "a.lock").touch()
    env = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "GITHUB_BASE_REF": "main"}
    for recipes, code in (("a.yaml b.yaml", 0), ("bad.yaml b.yaml", 2)):
        env |= {"RECIPES": recipes, "GITHUB_STEP_SUMMARY": "summary.md"}
        codes = [
            subprocess.run(["bash", "-ec", s], cwd=tmp_path, env=env).returncode for s in steps
        ]
        assert codes[:2] == [0, 0]
        assert bool(codes[2]) == bool(code)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[:4] == [
        "lock a.yaml --check",
        "build a.yaml b.yaml",
        "diff origin/main:a.yaml a.yaml --markdown",
        "diff origin/main:b.yaml b.yaml --markdown",
    ]
    assert calls[4:] == ["build bad.yaml b.yaml", "diff origin/main:bad.yaml bad.yaml --markdown"]


def test_a_recipe_gets_a_workflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/base.yaml").write_text("platform: cortex-m55-bare\n")
    text = "extends: base.yaml\nmodel: a.onnx\n"
    (tmp_path / "recipes/a.yaml").write_text(text)
    (tmp_path / "recipes/a.onnx").touch()
    assert main(["init", "recipes/a.yaml", "--ci", "gitlab"]) == 0
    assert "wrote .gitlab-ci.yml" in capsys.readouterr().out
    assert (tmp_path / "recipes/a.yaml").read_text() == text
    script = yaml.safe_load((tmp_path / ".gitlab-ci.yml").read_text())["firmware"]["script"]
    assert script[0].endswith("qemu-system-arm")
    assert "firmwright build recipes/a.yaml" in script
    assert script[2].startswith("if [ -e recipes/a.lock ]; ")
    assert main(["init", "recipes/a.yaml", "--ci", "gitlab"]) == 0
    assert "kept: .gitlab-ci.yml" in capsys.readouterr().out


def test_a_workflow_uses_the_name_and_the_toolchain_of_its_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.onnx").touch()
    text = "model: a.onnx\nname: kws\nplatform: cortex-m4-bare\ntoolchain: arm-none-eabi-gcc\n"
    for name in ("kws-a.yaml", "a.yaml"):
        (tmp_path / name).write_text(text)
        assert main(["init", name, "--ci", "gitlab"]) == 0
    workflow = yaml.safe_load((tmp_path / ".gitlab-ci.yml").read_text())["firmware"]
    assert "gcc-arm-none-eabi" in workflow["script"][0]
    assert workflow["artifacts"]["paths"][0] == "build/kws/*.tar.gz"
    missing = capsys.readouterr().err
    assert "firmwright build a.yaml" in missing
    assert "and build/kws/*.tar.gz to the paths" in missing


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.yaml", "--target", "c"], "init: --target has no effect with a recipe; remove it"),
        (["a.yaml"], "unknown platform 'hots'; did you mean 'host'?"),
        (["b c.yaml"], "b c.yaml: a workflow cannot name this path; expected a .yaml file below"),
        (["../a.yaml"], "../a.yaml: "),
        (["none.yaml"], "none.yaml: "),
    ],
)
def test_a_recipe_that_gets_no_workflow(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text("model: a.onnx\nplatform: hots\n")
    (tmp_path / "b c.yaml").write_text("model: b.onnx\nname: b\nplatform: host\n")
    (tmp_path / "b.onnx").touch()
    assert main(["init", *arguments]) == 1
    assert message in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.yaml", "b c.yaml", "b.onnx"]


def test_the_folder_of_an_export_is_converted_by_another_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", str(tmp_path)]) == 1
    assert f"firmwright init --from {tmp_path}\n" in capsys.readouterr().err
