"""Only the expected TVM is imported, without its slow parts but with all other names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

AS_IT_IS = "import firmwright"
LISTING_EACH_TIME = "from firmwright import tvm_import; tvm_import.list_names_once = lambda: None"
LIST_MODULES = """
import sys
from tvm import relax
for name, module in sorted(sys.modules.items()):
    if name.partition(".")[0] in ("torch", "tvm"):
        print(name, *sorted(vars(module)))
"""


def list_modules(prepare: str) -> dict[str, set[str]]:
    """Return the modules of a process that imports TVM, with all their names."""
    program = f"{prepare}\n{LIST_MODULES}"
    lines = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return {module: set(names) for module, *names in map(str.split, lines)}


def test_modules_take_the_functions_that_they_took_of_all_names() -> None:
    modules = list_modules(AS_IT_IS)
    assert "call_tir" in modules["tvm.relax.op.base"]
    assert len(modules["tvm.relax._ffi_api"]) > 100
    assert modules == list_modules(LISTING_EACH_TIME)


def test_slow_parts_are_left_out() -> None:
    modules = list_modules(AS_IT_IS)
    assert not modules.keys() & {"torch", "tvm.runtime.disco"}


@pytest.fixture
def other_version(tmp_path: Path) -> dict[str, str]:
    """The environment variables that let Python find another version of tvm-ffi."""
    described = tmp_path / "site" / "apache_tvm_ffi-0.1.15.dist-info" / "METADATA"
    described.parent.mkdir(parents=True)
    described.write_text("Metadata-Version: 2.1\nName: apache-tvm-ffi\nVersion: 0.1.15\n")
    return {**os.environ, "PYTHONPATH": str(tmp_path / "site")}


def test_a_build_rejects_another_version_in_one_line(
    other_version: dict[str, str], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "firmwright", "build", str(ROOT / "recipes/digits.yaml")]
    done = subprocess.run(
        command, cwd=tmp_path, env=other_version, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == (
        "wrong version of TVM (found apache-tvm-ffi 0.1.15); expected "
        "apache-tvm-ffi==0.1.14.post1; run python -m pip install apache-tvm-ffi==0.1.14.post1\n"
    )


def test_the_import_of_another_version_fails_before_it_begins(
    other_version: dict[str, str],
) -> None:
    program = """
import sys, firmwright
from firmwright.errors import UserError
try:
    import tvm
except UserError as error:
    print(error.args[0].partition(";")[0], {"tvm", "tvm_ffi"} & {*sys.modules})
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=other_version, capture_output=True, text=True, check=True)
    assert done.stdout == "wrong version of TVM (found apache-tvm-ffi 0.1.15) set()\n"


def test_doctor_shows_another_version(other_version: dict[str, str]) -> None:
    command = [sys.executable, "-m", "firmwright", "doctor"]
    done = subprocess.run(command, env=other_version, capture_output=True, text=True, check=True)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("apache-tvm-ffi")]
    assert line.split(maxsplit=1)[1] == (
        "0.1.15; expected 0.1.14.post1: python -m pip install apache-tvm-ffi==0.1.14.post1"
    )


def test_the_command_starts_without_slow_modules() -> None:
    """They need several times the time of all other imports; most commands do not need them."""
    program = "import sys, firmwright.cli; print(*sys.modules)"
    command = [sys.executable, "-c", program]
    modules = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    slow = {
        "jinja2",
        "jsonschema",
        "numpy",
        "onnx",
        "requests",
        "rich",
        "tvm",
        "unicorn",
    }
    assert not slow.intersection(modules)
