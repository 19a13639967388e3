"""A package reads TFLite files with its custom operators."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from firmwright.models.formats import ReferenceOutputs
from firmwright.models.tflite import vendor_files
from firmwright.models.tflite.importer import import_model
from firmwright.models.tflite.litert_outputs import run_reference
from tests.networks.tflite_models import ModelBuilder


def make_file() -> bytes:
    """Return a model whose only operator is the custom operator `npu`."""
    builder = ModelBuilder()
    source, output = (add((4,), "float32", None) for add in (builder.input, builder.output))
    builder.operator("NEG", [source], [output], "NegOptions")
    code = builder.model.operatorCodes[0]
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
    code.customCode = "npu"
    return builder.build()


def test_a_vendors_file(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = ReferenceOutputs("the vendor's simulator", [[np.zeros(4)]])
    module = ModuleType("chip_files")
    module.__dict__.update(
        import_model=lambda *given: given,
        run_reference=lambda *_: outputs,
    )
    monkeypatch.setitem(sys.modules, "chip_files", module)
    points = [EntryPoint("npu", "chip_files", vendor_files.ENTRY_POINT_GROUP)]
    monkeypatch.setattr(vendor_files, "find_plugins", lambda _: points)
    data = make_file()
    given: Any = import_model(data, "net", {})
    assert given == (data, "net", {})
    assert run_reference(data, [{}]) is outputs
