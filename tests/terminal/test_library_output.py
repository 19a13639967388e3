"""Output of libraries goes to a file, and output of Python to the terminal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os, sys
from pathlib import Path
from firmwright.terminal.guard import keep_library_output

os.write(2, b"before\\n")
with keep_library_output(Path(sys.argv[1])):
    os.write(2, b"[02:17:03] block_builder.cc:67: Warning: BlockBuilder destroyed\\n")
    print("a mistake", file=sys.stderr)
    if os.fork() == 0:
        os.write(2, b"a warning of a child\\n")
        print("a mistake of a child", file=sys.stderr)
        os._exit(0)
    os.wait()
os.write(2, b"after\\n")
print("the end", file=sys.stderr)
"""


def test_only_python_writes_to_the_terminal(tmp_path: Path) -> None:
    log = tmp_path / "log"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, log], capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines() == [
        *("before", "a mistake", "a mistake of a child", "after", "the end")
    ]
    first, second = log.read_text().splitlines()
    assert first.endswith("BlockBuilder destroyed")
    assert second == "a warning of a child"
