"""The configuration of TI's import tool: scales of the boundary, shapes, the target's options."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from firmwright.devices.tidl.artifact_records import RegionFiles
from firmwright.devices.tidl.artifacts import FLOAT, boundary_quant_params
from firmwright.devices.tidl.import_config import (
    RegionImport,
    find_unmapped_options,
    format_import_config,
)
from firmwright.devices.tidl.options import TidlOptions, read_options
from firmwright.errors import UserError
from firmwright.ir.quant_params import QuantParams
from firmwright.ir.tensors import Tensor
from firmwright.recipe.target import parse_target
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import load_platform

from .networks import network, region_of

op = relax.op


def options(text: str = "", platform: str = "j721s2") -> TidlOptions:
    mix = load_mix(parse_target(f"tidl {text}, c"), load_platform(platform), "onnx")
    return read_options(mix[0].context)


def message(region: RegionImport, text: str = "") -> dict[str, str]:
    lines = format_import_config(region, options(text), 5).splitlines()
    return dict(line.split(" = ") for line in lines)


def region(dtype: str = "float32", prequantized: bool = False) -> RegionImport:
    inputs = (Tensor("tidl_3_i0", (2, 8, 6, 4), dtype), Tensor("tidl_3_i1", (9, 7), dtype))
    outputs = (Tensor("tidl_3_o0", (2, 5), dtype),)
    quant_params = tuple(QuantParams("int8", s, z) for s, z in ((0.25, 3), (0.5, -1), (2.0, 0)))
    return RegionImport(RegionFiles(3), inputs, outputs, quant_params, 8, prequantized)


def grid(scale: float, zero_point: int) -> tuple[relax.Expr, relax.Expr]:
    return relax.const(np.float32(scale)), relax.const(np.int8(zero_point))


def moved(builder: relax.BlockBuilder, x: relax.Var) -> list[relax.Expr]:
    """Elements are moved before the dequantize and after the quantize."""
    inner = op.dequantize(op.reshape(x, (1, 256)), *grid(0.5, 7))
    result = builder.emit(op.quantize(op.nn.relu(inner), *grid(0.25, -128), out_dtype="int8"))
    return [op.permute_dims(op.reshape(result, (16, 16))), op.dequantize(result, *grid(0.25, -128))]


def test_the_grids_of_a_boundary_are_those_of_its_quantize_and_dequantize() -> None:
    found = boundary_quant_params(region_of(network(moved, dtype="int8")))
    assert found == [QuantParams("int8", 0.5, 7), QuantParams("int8", 0.25, -128), FLOAT]


def test_tensors_are_described_in_their_order() -> None:
    found = message(region("int8", prequantized=True))
    assert found["inDataNamesList"] == '"tidl_3_i0,tidl_3_i1"'
    assert found["inTensorScale"] == "4 2"
    assert found["inZeroPoint"] == "3 -1"
    assert (found["outTensorScale"], found["outZeroPoint"]) == ("0.5", "0")
    assert found["inElementType"] == found["rawDataInElementType"] == "1 1"
    shapes = ("numBatches", "inDIM1", "inDIM2", "inNumChannels", "inHeight", "inWidth")
    assert [found[key] for key in shapes] == ["2 1", "1 1", "1 1", "8 1", "6 9", "4 7"]
    assert found["preQuantizedModel"] == "1"
    assert found["calibrationOption"] == "0"
    assert found["numFrames"] == found["numFramesBiasCalibration"] == "5"


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("", "calibrationOption", "7"),
        ("-accuracy_level=0", "calibrationOption", "0"),
        ("-accuracy_level=9", "calibrationOption", "7"),
        (
            "-accuracy_level=9 -advanced_options:weight_clipping=0 "
            "-advanced_options:channel_wise_quantization=1",
            "calibrationOption",
            "13",
        ),
        ("-advanced_options:quantization_scale_type=1", "quantizationStyle", "3"),
        ("-advanced_options:quantization_scale_type=4", "quantizationStyle", "6"),
        ("-preset=tvmc", "biasCalibrationIterations", "5"),
        ("-debug_level=2", "debugTraceLevel", "2"),
        ("-advanced_options:add_data_convert_ops=1", "addDataConvertToNet", "1"),
        ("", "addDataConvertToNet", "3"),
    ],
)
def test_an_option_is_told_by_the_tools_own_key(text: str, key: str, value: str) -> None:
    assert message(region(), text)[key] == value


def test_lists_of_layers_are_told() -> None:
    assert "params16bitNamesList" not in format_import_config(region(), options(), 5)
    listed = {**options().values, "advanced_options:params_16bit_names_list": ("a", "b")}
    assert 'params16bitNamesList = "a,b"' in format_import_config(region(), TidlOptions(listed), 5)


def test_options_without_a_key_are_named() -> None:
    assert find_unmapped_options(options()) == []
    named = options("-advanced_options:network_name=Part")
    assert find_unmapped_options(named) == ["advanced_options:network_name"]


def test_a_type_that_tidl_has_not_is_refused() -> None:
    with pytest.raises(UserError, match="is bool; expected uint8, int8, "):
        message(region("bool"))
