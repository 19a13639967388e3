"""Finds SiMa's Model SDK and its Python, and runs the script in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from firmwright.errors import UserError
from firmwright.targets.vendor_tool import describe_failure, run_vendor_tool
from firmwright.toolchain.opened_files import OpenedFiles, list_folder

PYTHON_VARIABLE = "AFE_PYTHON"
"""The variable that names the interpreter of the SDK, or a program that calls the interpreter."""
HOME_VARIABLE = "MODEL_COMPILER_HOME"
"""The variable that is set if the SDK's environment is active."""
PASSED_VARIABLES = (
    *("HOME", "PATH", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV"),
    *(HOME_VARIABLE, "MODEL_COMPILER_VERSION", "SIMA_MLA_SIM_PARALLEL"),
)
"""The environment variables of the SDK's process. The SDK's activation sets them."""
SCRIPT = "compile.py"
RECORD = "sdk.json"
VERSION_PROGRAM = (
    "from afe.apis.release_v1 import get_model_sdk_version; print(get_model_sdk_version())"
)
PACKAGES_PROGRAM = """\
import importlib.metadata, importlib.util, json, sys
afe = importlib.util.find_spec("afe")
print(json.dumps({
    "folders": [*afe.submodule_search_locations] if afe else [],
    "path": sys.path[1:],
    "versions": sorted(f"{d.name} {d.version}" for d in importlib.metadata.distributions()),
}))
"""


@dataclass(frozen=True)
class InstalledSdk:
    """An installed SDK: its interpreter, and the variable that contains the interpreter's path."""

    python: Path
    variable: str


def find_sdk() -> InstalledSdk | None:
    """Return the SDK, or None if no environment variable names an SDK.

    Raises UserError if a variable names a file that is not executable.
    """
    for variable, location in ((PYTHON_VARIABLE, ""), (HOME_VARIABLE, "bin/python")):
        stated = os.environ.get(variable)
        if stated:
            python = Path(stated).expanduser().absolute() / location
            if not python.is_file() or not os.access(python, os.X_OK):
                raise UserError(
                    f"{variable}={stated}: {python} is not a program; set {variable} to the "
                    "Model SDK's program, or leave it unset"
                )
            return InstalledSdk(python, variable)
    return None


def read_version(sdk: InstalledSdk) -> str:
    """Return the SDK's version. Raises UserError if the SDK's Python fails."""
    return ask(sdk, VERSION_PROGRAM)


def list_installed_files(sdk: InstalledSdk) -> OpenedFiles:
    """Return the interpreter, all files of SiMa's package, and the versions of all packages.

    Raises UserError if the interpreter does not run.
    """
    installed = json.loads(ask(sdk, PACKAGES_PROGRAM))
    folders = [list_folder(Path(folder)) for folder in installed["folders"]]
    return OpenedFiles(
        (str(sdk.python), *(file for each in folders for file in each.files)),
        (*installed["path"], *(location for each in folders for location in each.locations)),
        tuple(installed["versions"]),
    )


def ask(sdk: InstalledSdk, program: str) -> str:
    """Return the last line that a program prints in the SDK's Python.

    Raises UserError if the program fails.
    """
    with TemporaryDirectory() as empty:  # `-c` imports modules from the current folder
        done = run_python(sdk, ["-c", program], Path(empty))
    return done.stdout.strip().splitlines()[-1]


def run_script(sdk: InstalledSdk, folder: Path, log: Path) -> str:
    """Run the script in its folder, write its output to ``log``, and return the SDK's version.

    Raises UserError with the end of the log if the script fails or writes no record.
    """
    done = run_python(sdk, [SCRIPT], folder, log)
    try:
        record: Any = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        return str(record["model_sdk_version"])
    except (OSError, ValueError, KeyError, TypeError):
        problem = f"no valid {RECORD}"
        raise UserError(describe_failure(name_script(sdk), problem, done.stdout, log)) from None


def run_python(
    sdk: InstalledSdk, arguments: list[str], folder: Path, log: Path | None = None
) -> subprocess.CompletedProcess[str]:
    added = {"LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [str(sdk.python), *arguments]
    done = run_vendor_tool(command, folder, PASSED_VARIABLES, added, log)
    if done.returncode != 0:
        problem = f"exit code {done.returncode}"
        raise UserError(describe_failure(name_script(sdk), problem, done.stdout, log))
    return done


def name_script(sdk: InstalledSdk) -> str:
    return f"SiMa's Model SDK ({sdk.python} {SCRIPT})"
