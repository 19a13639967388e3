"""The import of TVM without its slow parts gives all else that TVM has."""

from __future__ import annotations

import subprocess
import sys

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
    """Return the modules of a process that imports TVM, with all names in them."""
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
