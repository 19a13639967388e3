"""A file that changes during a build fails the stages that read it, in one process or several."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = '''
import sys
from pathlib import Path
from doit.cmd_base import ModuleTaskLoader
from doit.doit_cmd import DoitMain
from firmwright.pipeline.runners import install_runners

class Title:
    """Of a stage, as the task file gives each."""

    stage = "read"

    def __call__(self, task):
        return task.name

def edit(when):
    if when in sys.argv[1]:
        Path("input").write_text("other")

def task_read():
    for name, needs in (("first", []), ("between", ["read:first"]), ("last", ["read:between"])):
        files = [] if name == "between" else ["input"]
        more = {"task_dep": needs, "file_dep": files, "title": Title()}
        yield {"name": name, "actions": [(edit, [name])], **more}

install_runners()
sys.exit(DoitMain(ModuleTaskLoader({"task_read": task_read})).run(["run", *sys.argv[2:]]))
'''


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "two processes"])
@pytest.mark.parametrize(
    ("edited", "failed"),
    [("never", ""), ("first", "read:first"), ("between", "read:last"), ("last", "read:last")],
)
def test_a_stage_fails_whose_input_changed(
    tmp_path: Path, options: tuple[str, ...], edited: str, failed: str
) -> None:
    program = tmp_path / "program.py"  # in a file: doit reads the lines of a task's code
    program.write_text(PROGRAM)
    (tmp_path / "input").write_text("given")

    def run(edited: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(program), edited, *options]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    done = run(edited)
    printed = f"{failed}: input changed during this build; build again"
    assert (done.returncode != 0, printed in done.stdout + done.stderr) == (bool(failed),) * 2
    assert run("never").returncode == 0
