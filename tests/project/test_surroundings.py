"""The files around firmwright: hooks, image, development container and editor tasks."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import yaml

from firmwright.codegen.templates import read_template
from firmwright.emulator.qemu import DEBIAN_PACKAGES
from firmwright.toolchain import load_platform, load_toolchain, platform_names
from tests.quality.test_repository import ROOT
from tests.rebuild.test_wheels import write_wheel

PLACE = re.compile(r"(\S+\.yaml):(\d+):(\d+): (.*)")
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
"""The programs of this environment are first, as in the environment of a hook."""
BACKEND = """\
import shutil

def build_wheel(folder, *_):
    shutil.copy("firmwright-1.0-py3-none-any.whl", folder)
    return "firmwright-1.0-py3-none-any.whl"
"""


def run_hook(name: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    (entry,) = [hook["entry"] for hook in hooks if hook["id"] == name]
    words, variables = [*shlex.split(entry), *arguments], {**os.environ, "PATH": PATH}
    return subprocess.run(
        words, cwd=folder, env=variables, capture_output=True, text=True, timeout=60
    )


def test_the_hook_rejects_recipes_with_errors(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"")
    names = ("a/good.yaml", "b/good.yaml", "bad.yaml")
    for name, text in zip(names, ("model: ../m.onnx\n",) * 2 + ("platfrm: host\n",), strict=True):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    done = run_hook("firmwright-recipes", tmp_path, *names[:2])
    assert (done.returncode, done.stderr) == (0, "")
    done = run_hook("firmwright-recipes", tmp_path, names[2], names[0])
    assert done.returncode != 0
    assert "bad.yaml:1:1: platfrm: unknown key" in done.stderr


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


def test_the_task_of_an_editor_marks_the_error_in_its_file(tmp_path: Path) -> None:
    (task,) = json.loads(read_template("repository/tasks.json.j2"))["tasks"]
    (tmp_path / "m.onnx").touch()
    (tmp_path / "bad.yaml").write_text("model: m.onnx\nplatfrm: host\n")
    words = [word.replace("${relativeFile}", "bad.yaml") for word in task["args"]]
    done = subprocess.run(
        [task["command"], *words], cwd=tmp_path, env={**os.environ, "PATH": PATH},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    pattern = task["problemMatcher"]["pattern"]
    marks = [m for line in done.stderr.splitlines() if (m := re.search(pattern["regexp"], line))]
    assert done.returncode == 1
    assert [mark[pattern["file"]] for mark in marks] == ["bad.yaml"]
    assert (marks[0][pattern["line"]], marks[0][pattern["column"]]) == ("2", "1")


def test_a_container_installs_what_ci_installs_from_every_tracked_file() -> None:
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text("utf-8"))
    readme = (ROOT / "README.md").read_text("utf-8")
    # .ci/run runs this line of the README.
    assert f"    {container['postCreateCommand']} && python -m pytest\n" in readme
    ignored = (ROOT / ".dockerignore").read_text("utf-8").split()
    tracked = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    parts = {part for path in tracked for part in Path(path).parts}
    assert not {name.removeprefix("**/") for name in ignored} & parts


def test_the_image_has_debians_programs_of_every_platform() -> None:
    image = (ROOT / "Dockerfile").read_text("utf-8").split()
    assert {*DEBIAN_PACKAGES.values()} <= {*image}
    for platform in map(load_platform, platform_names()):
        for toolchain in map(load_toolchain, platform.toolchains):
            assert {*toolchain.packages.get("debian", ())} <= {*image}, toolchain.name
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text("utf-8"))
    folder = ROOT / ".devcontainer"
    assert (folder / container["build"]["dockerfile"]).samefile(ROOT / "Dockerfile")
    assert (folder / container["build"]["context"]).samefile(ROOT)


def test_an_image_without_network_says_so(tmp_path: Path) -> None:
    image = re.sub(r" *\\\n *", " ", (ROOT / "Dockerfile").read_text("utf-8")).splitlines()
    (layer,) = (line.removeprefix("RUN ") for line in image if "apt-get" in line)
    (tmp_path / "apt-get").write_text('#!/bin/sh\n[ "$1 $2" != "update --error-on=any" ]\n')
    (tmp_path / "apt-get").chmod(0o755)
    variables = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-c", layer], env=variables, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("no network: this image needs Debian's packages; behind a proxy")


def test_the_image_and_the_action_install_firmwright(tmp_path: Path) -> None:
    """If a requirement has a digest, pip rejects a folder, except with ``--no-deps``."""
    write_wheel(tmp_path, "part", "1.0", "")
    write_wheel(tmp_path, "firmwright", "1.0", "Requires-Dist: absent\n")
    digest = hashlib.sha256((tmp_path / "part-1.0-py3-none-any.whl").read_bytes()).hexdigest()
    (tmp_path / "constraints.txt").write_text(f"part==1.0 --hash=sha256:{digest}\n")
    (tmp_path / "backend.py").write_text(BACKEND)
    backend = '{build-backend = "backend", backend-path = ["."], requires = []}'
    (tmp_path / "pyproject.toml").write_text(f"build-system = {backend}\n")
    image = re.sub(r" *\\\n *", " ", (ROOT / "Dockerfile").read_text("utf-8")).splitlines()
    (layer,) = (line.removeprefix("RUN ") for line in image if "pip install" in line)
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))["runs"]["steps"]
    (step,) = (step["run"] for step in action if "pip install" in step.get("run", ""))
    known = layer.replace("--no-cache-dir ", "").replace("/firmwright", str(tmp_path))
    assert known == step.replace('"', "").replace("$GITHUB_ACTION_PATH", str(tmp_path))
    target = tmp_path / "target"
    pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_TARGET": str(target)}
    variables = {**os.environ, **pip, "PATH": PATH}
    subprocess.run(["bash", "-ec", known], env=variables, check=True, timeout=60)
    assert {"part.py", "firmwright.py"} < {file.name for file in target.iterdir()}
