"""A folder like TI's tools; its programs compute nothing, and the import records its arguments."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from firmwright.devices.tidl.tools import IMPORT_TOOL, TOOL_FILES

PROGRAM = """\
#!{python} -I
import json, os, shutil, sys
from pathlib import Path

tools = Path(__file__).parent
calls = tools / ".calls"
calls.mkdir(exist_ok=True)
config = dict(line.split(" = ") for line in Path(sys.argv[1]).read_text().splitlines())
given = {{key: value.strip('"') for key, value in config.items()}}
number = len(list(calls.glob("*.json")))
files = {{n: Path(n).stat().st_size for n in (given["inputNetFile"], given["inData"])}}
call = {{"argv": sys.argv, "cwd": os.getcwd(), "environment": dict(os.environ), "files": files}}
(calls / f"{{number}}.json").write_text(json.dumps(call))
print("| TIDL Tools Version | \\x1b[32;1m11_00_06_00\\x1b[0m |")
print("| C7x Firmware Version | 11_00_00_00 |")
{body}
"""
IMPORTS = """\
Path(given["outputNetFile"]).write_bytes(b"net of " + Path(given["inputNetFile"]).name.encode())
Path(given["outputParamsFile"] + "1.bin").write_bytes(b"params")
Path("by_the_way.svg").write_text(os.getcwd())
"""
FAILS = """\
for line in range(30):
    print("line", line)
print("[ERROR] the network is not understood")
sys.exit(3)
"""
FORGETS = """\
Path(given["outputNetFile"]).write_bytes(b"net")
"""


def fake_tools(folder: Path, body: str = IMPORTS, device: int = 4) -> Path:
    """Write the folder; ``device`` is the number in its device_config.cfg, which is 4 for AM62A."""
    folder.mkdir(parents=True)
    for name in TOOL_FILES:
        (folder / name).write_text("#!/bin/sh\nexit 1\n")
        (folder / name).chmod(0o755)
    (folder / "device_config.cfg").write_text(f"MSMCSIZE_KB = 1024\nDEVICE_NAME = {device}\n")
    (folder / IMPORT_TOOL).write_text(PROGRAM.format(python=sys.executable, body=body))
    return folder


def calls(folder: Path) -> list[dict[str, Any]]:
    """Return the arguments of the import's calls, in order."""
    paths = sorted((folder / ".calls").glob("*.json"))
    return [json.loads(path.read_text()) for path in paths]
