"""Convolutions with channels last compute the same, and layouts change where they must alone."""

from __future__ import annotations

import pytest

from firmwright.compile import prepare_module
from firmwright.ir.relax import main_bindings, operator_name
from firmwright.models import FORMATS
from firmwright.transforms.channels_last import use_channels_last
from tests.lowering.test_tflite_networks import mirrored

NETWORKS = {"kws_qdq.onnx": 0, "resnet8_qdq.onnx": 0}
"""Changes of layout that are left in a network; its first ones are mere reshapes or undone."""


@pytest.mark.parametrize("name", NETWORKS)
def test_no_change_of_layout_is_left(name: str) -> None:
    importer = FORMATS["onnx"].load()
    module, _ = importer.import_model(mirrored(name).read_bytes(), name, {})
    moved = use_channels_last(prepare_module(module))
    operators = [operator_name(binding.value) for binding in main_bindings(moved)]
    assert operators.count("relax.permute_dims") == NETWORKS[name]
    layouts = {
        str(binding.value.attrs.data_layout)
        for binding in main_bindings(moved)
        if operator_name(binding.value) == "relax.nn.conv2d"
    }
    assert layouts == {"NHWC"}
