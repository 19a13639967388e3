"""SiMa's Model SDK for tests: an interpreter that finds only the recorded ``afe``."""

from __future__ import annotations

import sys
from pathlib import Path

RECORDED = Path(__file__).parent / "afe_recorded"
PROGRAM = """\
#!/bin/sh
exec env PYTHONPATH={path} {python} "$@"
"""


def install_sdk(folder: Path, path: Path = RECORDED) -> Path:
    """Write the program that ``AFE_PYTHON`` names."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "python"
    program.write_text(PROGRAM.format(path=path, python=sys.executable))
    program.chmod(0o755)
    return program
