"""Run a module as ``python -m`` does, without the current folder on Python's path."""

import sys
from pathlib import Path
from runpy import run_module

if __name__ == "__main__":
    # The first entry is the folder of this script, unless PYTHONSAFEPATH is set.
    here = str(Path(__file__).parent)
    sys.path[:] = [entry for entry in sys.path if entry != here]
    del sys.argv[0]
    run_module(sys.argv[0], run_name="__main__", alter_sys=True)
