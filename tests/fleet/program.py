"""The program of the jobs in test_local, whose argument names its end."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from firmwright.errors import UserError


def main(folder: str, arguments: Sequence[str], text: str) -> int:
    match arguments[0]:
        case "refuse":
            raise UserError("recipe.yaml:1:1: an error")
        case "fail":
            print("a line of its output", file=sys.stderr)
            return 3
        case "fault":
            raise ZeroDivisionError("an unexpected error")
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "wait":
            Path(folder, "pid").write_text(str(os.getpid()))
            time.sleep(600)
    print(f"{Path.cwd()} {text}")
    return 0
