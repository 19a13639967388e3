"""The public interface has the names that examples and docs need, and loads no other modules."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from firmwright import device

ROOT = Path(__file__).parents[1]

SURFACE = """
Change Composite Constant Context Cycles DiagnosticError Extension Graph Group Kernel Layout
LoweredRegion ModelInterface Operator Parameter Placement QuantizedChain QuantizedStep
ReferenceOutputs Region Remedy Rule RuleViolation StoredTensor Suggestion Target Tensor UserError
apply_default_loops blocks
constant_array count_readers describe_stored dtype_of find_dequantized find_in_mirror
find_quantized_chains
find_violations
group_operators library_call lower_in_layers lower_region main_bindings make_binding_kind
merge_acyclic operator_name random_array read_graph read_rules read_variables rewrite_calls
run_in_copy short_name static_shape
"""
"""If a name is removed or changes its meaning, a new major version is necessary."""


def imported_modules(source: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return {name for name in found if name.split(".")[0] == "firmwright"}


def test_surface() -> None:
    assert device.__all__ == SURFACE.split()
    for name in device.__all__:
        assert getattr(device, name).__module__ != "firmwright.device"


def test_checkers_see_the_names_that_are_there() -> None:
    tree = ast.parse(Path(device.__file__).read_text(encoding="utf-8"))
    homes = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert homes == device.MODULE_OF


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no name 'Stage_'"):
        _ = device.Stage_


def run_program(program: str) -> str:
    """Return the output of a program in a separate Python process."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_import_loads_no_tvm() -> None:
    program = (
        "import sys; from firmwright.device import Context, Target; "
        "print(sorted({'tvm', 'numpy', 'onnx'} & set(sys.modules)))"
    )
    assert run_program(program) == "[]\n"


def test_the_command_line_loads_no_tvm() -> None:
    program = "import sys, firmwright.cli; print('tvm' in sys.modules)"
    assert run_program(program) == "False\n"


def test_tvm_comes_without_pytorch_and_pytorch_after_it() -> None:
    pytest.importorskip("torch")
    program = (
        "import sys, firmwright.compile; print('torch' in sys.modules); "
        "import torch; print(torch.zeros(2).tolist())"
    )
    assert run_program(program) == "False\n[0.0, 0.0]\n"


@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples").rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT))
)
def test_examples_import_nothing_else(path: Path) -> None:
    assert imported_modules(path.read_text(encoding="utf-8")) <= {"firmwright.device"}


def test_docs_name_nothing_else() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    allowed = {"firmwright.device", "firmwright.onnx_backend", "firmwright.tasks.dodo"}
    for page in pages:
        named = re.findall(
            r"^\s*from (firmwright\S*) import", page.read_text("utf-8"), re.MULTILINE
        )
        assert set(named) <= allowed, page
