"""Every name of TVM that firmwright uses is in the installed TVM."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from .layers import ROOT
from .tvm_names import find_gone, find_names, list_used

SOURCE = """
import tvm_ffi.libinfo
from tvm import relax as r, tirx
from tvm.s_tir import Schedule, gone_class

KNOWN = relax_names("add nn.gone")

def f(schedule: Schedule, extent: tirx.GoneExpr) -> r.Var:
    r.BlockBuilder().current_func()
    tvm_ffi.libinfo.find_libtvm_ffi()
    tvm.get_global_func("target.build.gone")
    return "relax.nn.conv", "relax.nn.conv2d", "relaxed.text", local.attribute
"""
GONE = ["function target.build.gone", "operator relax.nn.gone", "tvm.s_tir.gone_class",
        "tvm.tirx.GoneExpr"]  # fmt: skip
THERE = ["operator relax.add", "operator relax.nn.conv", "operator relax.nn.conv2d",
         "tvm.relax", "tvm.relax.BlockBuilder", "tvm.relax.Var", "tvm.s_tir.Schedule", "tvm.tirx",
         "tvm_ffi.libinfo", "tvm_ffi.libinfo.find_libtvm_ffi"]  # fmt: skip


def test_tvm_has_every_name() -> None:
    gone = [name for name, lacking in find_gone(list_used()) if not lacking or find_spec(lacking)]
    assert gone == []


def test_names_are_found_in_imports_annotations_and_texts(tmp_path: Path) -> None:
    (tmp_path / "source.py").write_text(SOURCE)
    found = find_names(tmp_path / "source.py")
    assert sorted(found) == sorted(GONE + THERE)
    assert sorted(find_gone(found)) == [(name, "") for name in GONE]


def test_names_that_need_a_package_that_is_not_installed() -> None:
    name = "tvm.relax.frontend.torch.exported_program_translator.ExportedProgramImporter"
    program = f"""
import sys
sys.modules["torch"] = None
from tests.quality.tvm_names import find_gone
print(*find_gone(["{name}"]))
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == f"('{name}', 'torch')\n"
