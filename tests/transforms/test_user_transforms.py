"""A user's rewrite is called with the network, and its result must fit."""

from __future__ import annotations

from pathlib import Path

import pytest
import tvm
from tvm import relax

from firmwright.errors import UserError
from firmwright.ir.relax import main_bindings, operator_name
from firmwright.targets.custom_transforms import apply_user_transform

OWN = """\
import tvm
from tvm import relax
from firmwright.ir.relax import operator_name, rewrite_calls

def square(module):
    def rewrite(builder, call):
        if operator_name(call) != "relax.multiply":
            return call
        return relax.op.square(call.args[0])

    return rewrite_calls(module, rewrite)

def nothing(module):
    pass

def other_shape(module):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 4), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.sum(x, [1])))
    return builder.get()

def other_input(module):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 4), "int8"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.astype(x, "float32")))
    return builder.get()

def no_main(module):
    return type(module)({})

def fails(module):
    return module["main"].bodies

def helped(module):
    other = relax.Function([], relax.const(1.0), is_pure=True)
    function = other.with_attr("global_symbol", "other")
    return type(module)({**module.functions, tvm.ir.GlobalVar("other"): function})

def packed(module):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            call = relax.call_pure_packed("elsewhere", x, ty_args=x.ty)
            result = builder.emit_output(call)
        builder.emit_func_output(result)
    return builder.get()
"""


@pytest.fixture
def squares() -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(relax.op.multiply(x, x))
        builder.emit_func_output(result)
    return builder.get()


def test_it_is_called_with_the_network(squares: tvm.IRModule, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    after = apply_user_transform("own:square", tmp_path, squares)
    assert "relax.square" in [operator_name(b.value) for b in main_bindings(after)]


@pytest.mark.parametrize(
    ("function", "line", "message"),
    [
        ("nothing", 13, "returned a NoneType; expected a Relax IRModule"),
        ("other_shape", 16, r"a network that returns float32 \[2\]; before, it returns float32 \["),
        ("other_input", 23, r"a network that takes int8 \[2, 4\]; before, it takes float32 \[2, 4"),
        ("no_main", 30, "returned a module without a Relax function 'main'"),
    ],
)
def test_a_result_that_does_not_fit_has_its_place(
    function: str, line: int, message: str, squares: tvm.IRModule, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    with pytest.raises(UserError, match=rf"own\.py:{line}:1: .*{message}.* \(own:{function}\)$"):
        apply_user_transform(f"own:{function}", tmp_path, squares)


def test_what_it_raises_has_its_line(squares: tvm.IRModule, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    with pytest.raises(UserError, match=r"own\.py:34: AttributeError: .*\(own:fails\)$"):
        apply_user_transform("own:fails", tmp_path, squares)


@pytest.mark.parametrize(
    ("function", "line", "message"),
    [
        ("helped", 36, "the module has Relax functions in addition to 'main': other; return a mod"),
        ("packed", 41, "operators that cannot be compiled:\n  call_pure_packed"),
    ],
)
def test_what_cannot_be_compiled_has_the_place_of_who_made_it(
    function: str, line: int, message: str, squares: tvm.IRModule, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    with pytest.raises(UserError, match=rf"own\.py:{line}:1: own:{function} returned: {message}"):
        apply_user_transform(f"own:{function}", tmp_path, squares)
