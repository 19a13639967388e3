"""A package reads TFLite files with its custom operators."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from firmwright import plugins
from firmwright.errors import UserError
from firmwright.models.formats import ReferenceOutputs
from firmwright.models.tflite import custom_calls
from firmwright.models.tflite.importer import import_model
from firmwright.models.tflite.litert_outputs import read_tensors, run_reference
from firmwright.pipeline import devices
from firmwright.pipeline.command_line import make_catalog
from firmwright.recipe.load_recipe import load_recipe
from tests.networks.tflite_models import ModelBuilder
from tests.ready_recipes import FOLDER


def make_file(name: str = "npu") -> bytes:
    """Return a model whose only operator is a custom operator."""
    builder = ModelBuilder()
    source, output = (add((4,), "float32", None) for add in (builder.input, builder.output))
    builder.operator("NEG", [source], [output], "NegOptions")
    code = builder.model.operatorCodes[0]
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
    code.customCode = name
    return builder.build()


def register(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    """Install importers of the custom operator `npu`."""
    points = [EntryPoint("npu", module, plugins.TFLITE_OPERATORS) for module in modules]
    monkeypatch.setattr(custom_calls, "list_tflite_vendors", lambda: points)


def test_the_operator_of_a_vendor_without_a_package_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    register(monkeypatch)
    with pytest.raises(UserError, match="Vela compiled the model for Arm Ethos-U"):
        import_model(make_file("ethos-u"), "net", {})


def test_two_importers_of_an_operator_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, "one", "two")
    with pytest.raises(UserError, match="several importers, one, two; uninstall"):
        import_model(make_file(), "net", {})


def test_tensors_of_a_vendors_file_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "chip_files", ModuleType("chip_files"))
    register(monkeypatch, "chip_files")
    with pytest.raises(UserError, match="firmwright does not read the tensors of a vendor's file"):
        read_tensors(make_file(), [{}])


def test_a_name_of_a_built_in_operator_is_ignored() -> None:
    builder = ModelBuilder()
    source, output = (add((4,), "float32", None) for add in (builder.input, builder.output))
    builder.operator("NEG", [source], [output], "NegOptions", version=1)
    builder.model.operatorCodes[0].customCode = "npu"
    assert import_model(builder.build(), "net", {})[1].outputs[0].shape == (4,)


def test_a_vendors_importer_is_an_input_of_every_build(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "chip_files.py").write_text("FACTOR = 2\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    points = [EntryPoint("npu", "chip_files", plugins.TFLITE_OPERATORS)]
    monkeypatch.setattr(devices, "list_tflite_vendors", lambda: points)
    recipe = load_recipe(FOLDER / "digits.yaml", {}, make_catalog())
    assert tmp_path / "chip_files.py" in devices.device_files(recipe)


def test_a_vendors_file(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = ReferenceOutputs("the vendor's simulator", [[np.zeros(4)]])
    module = ModuleType("chip_files")
    module.__dict__.update(
        import_model=lambda *given: given,
        run_reference=lambda *_: outputs,
    )
    monkeypatch.setitem(sys.modules, "chip_files", module)
    register(monkeypatch, "chip_files")
    data = make_file()
    given: Any = import_model(data, "net", {})
    assert given == (data, "net", {})
    assert run_reference(data, [{}]) is outputs
