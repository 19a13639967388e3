"""A recipe's ``extensions`` are used, and each error names its location."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from firmwright.documents.chain import Layers
from firmwright.errors import DiagnosticError
from firmwright.targets.custom_strategies import Extension, load_extensions
from tests.networks.pooling import MIX, pooling

RECIPE = """\
model: network.onnx
extensions: [{}]
"""
DOUBLED = """\
import tvm
from tvm import te

def doubled(builder, call):
    def values(x):
        return te.compute({shape}, lambda n, c, h, w: {value})
    return builder.call_te(values, call.args[0])

def add(extension):
    extension.add("relax.nn.max_pool2d", doubled)
"""


def lowered(folder: Path, source: str, *references: str) -> str:
    """Return the C of a max-pooling for a recipe with extensions in ``own.py``."""
    (folder / "own.py").write_text(source)
    named = references or ("own:add",)
    recipe = folder / "recipe.yaml"
    recipe.write_text(RECIPE.format(", ".join(named)))
    with load_extensions(MIX, named, Layers(recipe)) as mix:
        module, region = pooling(1, mix)
        return mix[0].lower(region, module).kernel.body


def mistake(folder: Path, monkeypatch: pytest.MonkeyPatch, source: str, *references: str) -> str:
    monkeypatch.chdir(folder)
    with pytest.raises(DiagnosticError) as raised:
        lowered(Path(), source, *references)
    return str(raised.value)


def test_without_extensions_python_reads_byte_code_as_it_does_elsewhere(tmp_path: Path) -> None:
    before = sys.dont_write_bytecode, sys.pycache_prefix
    with load_extensions(MIX, (), Layers(tmp_path / "recipe.yaml")) as mix:
        assert (sys.dont_write_bytecode, sys.pycache_prefix) == before
        assert [device.name for device in mix] == [device.name for device in MIX]


def test_a_users_strategy_comes_before_the_devices(tmp_path: Path) -> None:
    value = "x[n, c, 2 * h, 2 * w] * tvm.tirx.const(2.0)"
    source = DOUBLED.format(shape="(1, 2, 2, 2)", value=value)
    assert "* 2.0f" in lowered(tmp_path, source)


def test_the_recipes_order_is_the_order_of_the_strategies(tmp_path: Path) -> None:
    source = """\
def first(extension):
    extension.add("relax.nn.max_pool2d", schedule=lambda schedule: None)

def second(extension):
    extension.add("relax.nn.max_pool2d", schedule=lambda schedule: 1 / 0)
"""
    assert "for (" in lowered(tmp_path, source, "own:first", "own:second")


def test_a_strategy_for_another_device_is_not_used(tmp_path: Path) -> None:
    source = """\
def add(extension):
    assert extension.devices == ("c",)
    extension.add("relax.nn.max_pool2d", lambda builder, call: None, device="c7x")
"""
    assert "for (" in lowered(tmp_path, source)


def test_a_strategy_may_be_for_the_recipes_own_device_that_takes_the_rest(tmp_path: Path) -> None:
    extension = Extension(Layers(tmp_path / "recipe.yaml"), 0, "own:add", ("dla", "dsp"))
    extension.add("relax.nn.max_pool2d", lambda _, call: call, device="dsp")
    assert [len(extension.strategies_for(device)) for device in extension.devices] == [0, 1]


PLACE = "recipe.yaml:2:14: extensions[0]: "
ADD = "def add(extension):\n    extension.add({})\n"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def ad(e):\n    pass\n", "own:add: own has no function 'add'; did you mean 'ad'?"),
        ("def add(extension):\n    1 / 0\n", "own.py:2: ZeroDivisionError: division by zero"),
        ("def add(:\n", "own.py:1: invalid syntax"),
        (
            ADD.format('"relax.nn.maxpool2d", lambda builder, call: call'),
            "own.py:2: ValueError: unknown operator 'relax.nn.maxpool2d'; did you mean",
        ),
        (
            ADD.format('"relax.nn.max_pool2d"'),
            "own.py:2: ValueError: 'relax.nn.max_pool2d': compute and schedule are missing",
        ),
        (
            ADD.format('"relax.nn.max_pool2d", "doubled"'),
            "own.py:2: TypeError: compute: expected a function, found str",
        ),
        (
            ADD.format('"relax.nn.max_pool2d", print, device="c6x"'),
            "own.py:2: ValueError: 'c6x' has no strategies; expected one of c, c7x",
        ),
        (
            ADD.format('"relax.nn.max_pool2d", print, condition=lambda call: call.attrs.nothing'),
            "own.py:2: AttributeError: ",
        ),
        (
            ADD.format('"relax.nn.max_pool2d", schedule=lambda s: s.get_sblock("absent")'),
            "own.py:2: ScheduleError: get-block: Cannot find a block with the name: absent",
        ),
        (
            ADD.format('"relax.nn.max_pool2d", lambda builder, call: None'),
            "own.py:2: returned a NoneType for relax.nn.max_pool2d; expected a Relax expression",
        ),
        (
            DOUBLED.format(shape="(1, 2, 2, 3)", value="x[n, c, h, w]"),
            "own.py:4: returned float32 [1, 2, 2, 3] for relax.nn.max_pool2d; it has to be float32 "
            "[1, 2, 2, 2] (own:add)",
        ),
        (
            DOUBLED.format(shape="(1, 2, 2, 2)", value='x[n, c, h, w].astype("int8")'),
            "own.py:4: returned int8 [1, 2, 2, 2] for relax.nn.max_pool2d",
        ),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_the_recipes_place_and_the_users_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, message: str
) -> None:
    assert mistake(tmp_path, monkeypatch, source).startswith(PLACE + message)


def test_the_second_extension_has_its_own_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = mistake(tmp_path, monkeypatch, "def add(e):\n    pass\n", "own:add", "gone:add")
    assert found.startswith("recipe.yaml:2:23: extensions[1]: gone:add: no module 'gone'")
