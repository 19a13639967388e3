"""Finds TI's tools in the folder TIDL_TOOLS_PATH, and imports regions with the tools.

The files and the call of ``tidl_model_import.out`` follow TI's examples of the standalone tool
(edgeai-tidl-tools). The numbers of ``DEVICE_NAME`` are from TI's ``tidl_deviceInfo.h``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from firmwright.devices.tidl.artifact_records import RegionFiles
from firmwright.errors import UserError
from firmwright.targets.vendor_tool import describe_failure, run_vendor_tool
from firmwright.toolchain import Platform
from firmwright.toolchain.tool_folder import ToolFolder, find_tool_folder

TOOLS_VARIABLE = "TIDL_TOOLS_PATH"
IMPORT_TOOL = "tidl_model_import.out"
DEVICE_CONFIG = "device_config.cfg"
HELPERS = {
    "tidlStatsTool": "PC_dsp_test_dl_algo.out",
    "perfSimTool": "ti_cnnperfsim.out",
    "graphVizTool": "tidl_graphVisualiser.out",
    "perfSimConfig": DEVICE_CONFIG,
}
"""The files that the import tool calls or reads, by the option for their path."""
TOOL_FILES = (IMPORT_TOOL, *HELPERS.values())
PASSED_VARIABLES = ("HOME", "PATH", "TMPDIR")
"""The environment variables of a tool's process, in addition to the paths of tools and
libraries."""
DEVICE_NAMES: Mapping[int, tuple[int, ...]] = {
    7100: (0,),
    7120: (1, 2, 3),
    7504: (4,),
    7524: (4,),
}
"""``DEVICE_NAME`` in ``device_config.cfg`` by the silicon version of a chip's C7x.

TI has three names for version 7120, and does not document the name of J721S2.
"""


def find_tools(platform: Platform) -> ToolFolder | None:
    """Return TI's tools, or None if the variable is not set.

    Raises UserError if the folder lacks files, or if the tools are not executable or for another
    chip.
    """
    tools = find_tool_folder(TOOLS_VARIABLE, TOOL_FILES)
    if tools is None:
        return None
    fixed = [n for n in TOOL_FILES if n.endswith(".out") and not os.access(tools.path / n, os.X_OK)]
    if fixed:
        raise UserError(
            f"{TOOLS_VARIABLE}={tools.path}: not executable: {', '.join(fixed)}; run `chmod "
            "+x` for these files"
        )
    check_device(tools, platform)
    return tools


def check_device(tools: ToolFolder, platform: Platform) -> None:
    path = tools.path / DEVICE_CONFIG
    text = path.read_text(encoding="utf-8", errors="replace")
    stated = re.search(r"^\s*DEVICE_NAME\s*=\s*(\d+)", text, re.MULTILINE)
    if stated is None:
        raise UserError(
            f"{path}: the line `DEVICE_NAME = …` with the chip of the tools is missing; install "
            "the tools again"
        )
    silicon = int(platform.accelerators["tidl"]["silicon"])
    wanted = DEVICE_NAMES[silicon]
    if int(stated[1]) not in wanted:
        expected = " or ".join(map(str, wanted))
        raise UserError(
            f"{path}: the tools are for another chip (DEVICE_NAME {stated[1]}); the C7x of "
            f"'{platform.name}' has silicon version {silicon}: install the tools with DEVICE_NAME "
            f"{expected}"
        )


def make_import_command(tools: str, config: str) -> list[str]:
    """Return the command line that imports a region. The command runs in the region's folder."""
    helpers = [part for o, name in HELPERS.items() for part in (f"--{o}", f"{tools}/{name}")]
    return [f"{tools}/{IMPORT_TOOL}", config, *helpers]


def make_import_script(configs: Sequence[str]) -> str:
    """Return a shell script that imports all regions with the commands of :func:`run_import`."""
    lines = [" ".join(make_import_command(f'"${TOOLS_VARIABLE}"', config)) for config in configs]
    folder = 'cd "$(dirname "$0")"'
    known = "${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    libraries = f'export LD_LIBRARY_PATH="${TOOLS_VARIABLE}{known}"'
    return "\n".join(["#!/bin/sh", "set -e", folder, libraries, *lines, ""])


def run_import(tools: ToolFolder, folder: Path, files: RegionFiles, log: Path) -> str:
    """Import one region in the ``folder`` of its files, and return the version of the tools.

    Raises UserError with the end of the log if the tool fails or does not write its results. The
    output of the tool is stored in ``log``.
    """
    installed = str(tools.path)
    libraries = [installed, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    added = {TOOLS_VARIABLE: installed, "LD_LIBRARY_PATH": ":".join(libraries), "LC_ALL": "C"}
    command = make_import_command(installed, files.config)
    done = run_vendor_tool(command, folder, PASSED_VARIABLES, added, log)
    missing = [name for name in files.tool_files if not (folder / name).is_file()]
    if done.returncode != 0 or missing:
        code = done.returncode
        problem = f"exit code {code}" if code else f"no {' and no '.join(missing)}"
        raise UserError(describe_failure(" ".join(command), problem, done.stdout, log))
    return find_version(done.stdout)


def find_version(text: str) -> str:
    """Return the version in the table that TI's tools print, or ``unknown``."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    match = re.search(r"TIDL Tools Version\W+([0-9][0-9._]*)", plain)
    return match[1] if match else "unknown"
