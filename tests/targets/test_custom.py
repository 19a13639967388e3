"""A custom device: each error names the file and line of the user."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from firmwright.errors import DiagnosticError, UserError
from firmwright.ir.regions import COPY, Change, make_move_region
from firmwright.recipe.catalog import Catalog, KnownDevice, KnownPlatform
from firmwright.recipe.load_recipe import load_recipe
from firmwright.targets import Context
from firmwright.targets.custom import load_custom_target
from firmwright.toolchain import load_platform
from tests.devices.tidl.networks import network

NPU = """\
from firmwright.targets.placement import Placement
from firmwright.targets import Target


class NPU(Target):
    name = "npu"
    reason = "it can"
    options = {"fast": ("0", "1")}

    def place(self, module, context):
        from helper import placement

        return placement()

    def lower(self, region, module, context):
        return 1 / 0
"""
HELPER = "from firmwright.targets.placement import Placement\n\nplacement = Placement\n"
CATALOGUE = Catalog({}, (), {"c": KnownDevice({}, is_fallback=True)})
CONTEXT = Context(load_platform("host"), "onnx", {})
EMPTY = network(lambda _, x: [x])
RECIPE = """\
model: model.onnx
platform: host
devices: {npu: "npu:NPU"}
target: "npu -fast=2, c"
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def files(npu: str) -> Path:
        for name, text in {"npu.py": npu, "helper.py": HELPER, "own.yaml": RECIPE}.items():
            (tmp_path / name).write_text(text, "utf-8")
        (tmp_path / "model.onnx").touch()
        return tmp_path

    return files


def test_a_device_without_rules_returns_the_changes(write: Callable[[str], Path]) -> None:
    target = load_custom_target("npu", "npu:NPU", write(NPU))
    region = make_move_region("region", "npu", "", COPY, "a", "b")
    change = Change("strides", "strides", [2, 1], [1, 1])
    assert target.complete_changes(region, EMPTY, CONTEXT, [change]) == (change,)


def test_a_device_imports_what_lies_beside_it_whenever_it_is_asked(
    write: Callable[[str], Path],
) -> None:
    target = load_custom_target("npu", "npu:NPU", write(NPU))
    assert target.place(EMPTY, CONTEXT).composites == ()
    assert (target.options, target.is_fallback, target.rewrites) == (
        {"fast": ("0", "1")},
        False,
        (),
    )


@pytest.mark.parametrize(
    ("npu", "reference", "message"),
    [
        (NPU, "npu:NPV", "npu:NPV: npu has no function 'NPV'; did you mean 'NPU'?"),
        ("1 / 0\n", "npu:NPU", "npu.py:1: ZeroDivisionError: division by zero (npu:NPU)"),
        ("class NPU:\n  (\n", "npu:NPU", "npu.py:2: '(' was never closed (npu:NPU)"),
        (
            "class NPU:\n    name = reason = 'npu'\n",
            "npu:NPU",
            "npu.py:1:1: npu:NPU makes a NPU, which is not a device: it has no archive_reader, "
            "complete_changes, copies, core, describe_kernel, estimate_cycles, extend_project, "
            "is_fallback, is_portable, keeps_states, layout, libraries_variable, "
            "list_idle_options, list_variants, lower, machines, operators, options, packages, "
            "place, prepare, quantizes, rewrites, stages, suggest; "
            "derive it from firmwright.targets.Target",
        ),
        (
            NPU.replace('name = "npu"', 'name, stages = "npu", ("npu:PACK",)'),
            "npu:NPU",
            "npu.py:5:1: only an installed device can add stages and machines (npu:NPU); "
            "install it as a package",
        ),
        (
            NPU.replace("def lower", "def lowered"),
            "npu:NPU",
            "npu.py:5:1: TypeError: Can't instantiate abstract class NPU with abstract method "
            "lower (npu:NPU)",
        ),
        (
            NPU.replace('name = "npu"', 'name = "gpu"'),
            "npu:NPU",
            "npu.py:5:1: the device's name is 'gpu', but the recipe uses 'npu'; use one name",
        ),
    ],
)
def test_what_is_no_device_is_refused(
    npu: str, reference: str, message: str, write: Callable[[str], Path]
) -> None:
    folder = write(npu)
    with pytest.raises(UserError) as raised:
        load_custom_target("npu", reference, folder)
    assert str(raised.value).replace(f"{folder}/", "") == message


def test_what_a_device_raises_or_returns_is_told_with_its_line(
    write: Callable[[str], Path],
) -> None:
    folder = write(NPU.replace("return placement()", "return [placement()]"))
    target = load_custom_target("npu", "npu:NPU", folder)
    with pytest.raises(UserError, match=r"npu.py:10: place: returned a list; expected a Placement"):
        target.place(EMPTY, CONTEXT)
    with pytest.raises(UserError, match=r"npu.py:16: ZeroDivisionError: division by zero"):
        target.lower(None, EMPTY, CONTEXT)


@pytest.mark.parametrize(
    ("npu", "line"),
    [
        (NPU, "own.yaml:4:9: target: the option 'fast' of 'npu' must be 0 or 1, not '2'"),
        ("1 / 0\n", "own.yaml:3:16: devices.npu: npu.py:1: ZeroDivisionError: division by zero"),
    ],
)
def test_the_recipe_is_told_where_its_device_is_wrong(
    npu: str, line: str, write: Callable[[str], Path]
) -> None:
    folder = write(npu)
    catalogue = Catalog({"host": KnownPlatform((), ())}, (), CATALOGUE.devices)
    with pytest.raises(DiagnosticError) as raised:
        load_recipe(folder / "own.yaml", {}, catalogue)
    (found,) = str(raised.value).replace(f"{folder}/", "").splitlines()
    assert found.startswith(line)


def test_a_changed_device_is_noticed_though_the_recipe_was_checked_before(
    write: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = write(NPU)
    (folder / "own.yaml").write_text(RECIPE.replace("=2", "=1"), "utf-8")
    catalogue = Catalog({"host": KnownPlatform((), ())}, (), CATALOGUE.devices)
    cache = tmp_path / "cache"
    load_recipe(folder / "own.yaml", {}, catalogue, cache)
    write(NPU.replace('"fast"', '"quick"'))
    (folder / "own.yaml").write_text(RECIPE.replace("=2", "=1"), "utf-8")
    with pytest.raises(DiagnosticError, match="the device 'npu' has no option 'fast'"):
        load_recipe(folder / "own.yaml", {}, catalogue, cache)
