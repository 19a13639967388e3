"""TIDL's options in the target string, the defaults of TI's sources, and options that conflict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from firmwright.devices.tidl import TIDL
from firmwright.devices.tidl.option_table import (
    CALIBRATION,
    CALIBRATION_KEYS,
    OPTIONS,
    PRESETS,
    WIDE_RESULTS,
    WIDE_WEIGHTS,
    Value,
)
from firmwright.devices.tidl.options import SCALE_TYPE, TidlOptions, read_options
from firmwright.errors import UserError
from firmwright.targets import Context, Device
from firmwright.targets.device_options import Option, accepts, format_values
from firmwright.targets.load_devices import load_target
from firmwright.toolchain import load_platform

from .networks import float_convolution, names, placed, quantized_convolution, sentences

ADVANCED = "advanced_options:"
DOCS = Path(__file__).parents[3] / "docs" / "reference" / "tidl.md"


def read(platform: str = "am62a", rest: str = "c", **given: str) -> TidlOptions:
    chip = load_platform(platform)
    behind = Device(load_target(rest), Context(chip, "onnx", {}))
    options = {key.replace("__", ":"): value for key, value in given.items()}
    return read_options(Context(chip, "onnx", options, fallback=behind))


def written(value: Value) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_default_is_a_value_and_documented(option: Option[Value]) -> None:
    assert accepts(option.values, written(option.default))
    values = format_values(option.values) or ("a list" if option.default == () else "a text")
    default = f"`{option.default}`" if option.default != () else ""
    row = f"| `{option.name}` | {default} | {values} | {option.meaning} |"
    assert row in DOCS.read_text("utf-8")


def test_presets_set_options_that_exist_to_values_they_take() -> None:
    table = {option.name: option for option in OPTIONS}
    presets = table["preset"].values
    assert isinstance(presets, tuple)
    assert set(PRESETS) == set(presets)
    for defaults in (d for preset in PRESETS.values() for d in preset):
        for name, value in defaults.values.items():
            assert accepts(table[name].values, written(value))


@pytest.mark.parametrize(
    ("given", "frames", "iterations", "accuracy", "regions"),
    [
        ({}, 20, 50, 1, 16),
        ({"preset": "compile_relay"}, 20, 3, 1, 16),
        ({"preset": "compile_relay", "tensor_bits": "16"}, 20, 1, 0, 16),
        ({"preset": "compile_relay", "max_num_subgraphs": "2"}, 20, 3, 1, 2),
        ({"preset": "tidlrunner"}, 12, 12, 1, 16),
        ({"preset": "tvmc"}, 2, 5, 1, 16),
        ({"preset": "tvmc", "advanced_options__calibration_frames": "4"}, 4, 5, 1, 16),
    ],
)
def test_a_preset_fills_in_what_is_not_stated(
    given: dict[str, str], frames: int, iterations: int, accuracy: int, regions: int
) -> None:
    options = read(**given)
    names = (ADVANCED + "calibration_frames", ADVANCED + "calibration_iterations")
    found = [options.number(n) for n in (*names, "accuracy_level", "max_num_subgraphs")]
    assert found == [frames, iterations, accuracy, regions]


def test_a_preset_knows_what_the_chip_has_not() -> None:
    scales = ADVANCED + "quantization_scale_type"
    for preset in PRESETS:
        assert read("am62a", preset=preset).values[scales] == 4
        assert read("j721e", preset=preset).values[scales] == 1
        assert read("j721e", preset=preset, **{scales: "0"}).values[scales] == 0


def test_a_number_may_have_decimals_where_its_option_takes_them() -> None:
    factor = ADVANCED + "mixed_precision_factor"
    assert read().values[factor] == -1
    frames = {"advanced_options__calibration_frames": "50"}
    assert read(advanced_options__mixed_precision_factor="1.25", **frames).values[factor] == 1.25


@pytest.mark.parametrize(
    ("platform", "given", "message"),
    [
        (
            "j721e",
            {"advanced_options__quantization_scale_type": "4"},
            "which this chip does not have; use 0 or 1",
        ),
        (
            "am62a",
            {"tensor_bits": "16", "advanced_options__params_16bit_names_list": "a"},
            "tensor_bits is 16, and the lists of layers with 16 bits need 8",
        ),
        (
            "am62a",
            {"tensor_bits": "16", "advanced_options__mixed_precision_factor": "1.5"},
            "mixed_precision_factor needs 8",
        ),
        (
            "am62a",
            {"advanced_options__mixed_precision_factor": "1.5"},
            "needs accuracy_level=1, 50 calibration_frames and 50 .*; found 1, 20 and 50",
        ),
        (
            "am62a",
            {"accuracy_level": "1", "advanced_options__weight_clipping": "0"},
            "advanced_options:weight_clipping has an effect only with accuracy_level=9; "
            "remove the option, or set accuracy_level=9",
        ),
        (
            "am62a",
            {"tensor_bits": "32", "accuracy_level": "0"},
            "accuracy_level has no effect with tensor_bits=32, which keeps floats; remove one of "
            "the options",
        ),
        ("am62a", {"advanced_options__num_cores": "2"}, "num_cores is 2; the chip has 1 C7x"),
    ],
)
def test_what_does_not_fit_is_refused(platform: str, given: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read(platform, **given)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("accuracy_level", "3"),
        ("debug_level", "7"),
        ("advanced_options:calibration_frames", "0"),
        ("advanced_options:mixed_precision_factor", "0.5"),
        ("advanced_options:quantization_scale_type", "3"),
    ],
)
def test_the_recipe_accepts_no_other_value(name: str, text: str) -> None:
    assert not accepts(TIDL.options[name], text)


def test_several_cores_are_for_chips_that_have_them() -> None:
    assert read("j784s4", advanced_options__num_cores="4").number(ADVANCED + "num_cores") == 4


@pytest.mark.parametrize(
    ("results", "weights", "rule", "found"),
    [
        ("int8", "int8", "", ""),
        ("uint8", "int8", "", ""),
        ("int16", "int8", "quantized to 8 bits", "compile the float network with tensor_bits=16"),
        ("int8", "int16", "quantized weights", "its weights have 16 bits"),
    ],
)
def test_a_quantized_network_has_8_bits(results: str, weights: str, rule: str, found: str) -> None:
    placement = placed(quantized_convolution(results, weights), tensor_bits="8")
    assert set(sentences(placement)) == ({rule} if rule else set())
    assert found in sentences(placement).get(rule, "")
    assert len(names(placement)) == (0 if rule else 1)


@pytest.mark.parametrize("name", [*CALIBRATION, "tensor_bits"])
def test_no_option_on_quantization_is_ignored(name: str) -> None:
    """These options are for the quantization of a float network, so a quantized one has none."""
    (option,) = (o for o in OPTIONS if o.name == name)
    stated = {name: "16" if name == "tensor_bits" else written(option.default) or "conv"}
    if name in CALIBRATION_KEYS:
        stated["accuracy_level"] = "9"
    with pytest.raises(UserError, match=f"{name}.* (?:the|a) network is already quantized"):
        placed(quantized_convolution("int8", "int8"), **{"tensor_bits": "8", **stated})
    if name in (WIDE_RESULTS, WIDE_WEIGHTS):
        with pytest.raises(UserError, match="the network has no 'convv'; did you mean 'conv'"):
            placed(float_convolution(), **{"tensor_bits": "8", name: "convv"})
        stated = {name: "conv"}
    assert len(names(placed(float_convolution(), **{"tensor_bits": "8", **stated}))) == 1


@pytest.mark.parametrize(
    ("platform", "given", "scale", "zero_point", "rules"),
    [
        ("am62a", {}, 0.3, 3, {}),
        ("j721e", {}, 0.25, 0, {}),
        ("j721e", {}, 0.25, 3, {"symmetric scales": "it has the zero point 3; with "}),
        ("j721e", {}, 0.3, 0, {"powers of two": "it has the scale 0.3; with "}),
        ("j721e", {SCALE_TYPE: "0"}, 0.3, 0, {}),
        ("am62a", {SCALE_TYPE: "1"}, 0.3, 0, {"powers of two": "`quantize: {scheme: pow2}`"}),
        (
            "am62a",
            {SCALE_TYPE: "0"},
            [0.25, 0.5, 0.25, 0.5],
            0,
            {"symmetric scales": "has a scale for each channel; with quantization_scale_type 0"},
        ),
    ],
)
def test_scales_are_those_that_the_chip_takes(
    platform: str, given: dict[str, str], scale: Any, zero_point: int, rules: dict[str, str]
) -> None:
    module = quantized_convolution("int8", "int8", scale=scale, zero_point=zero_point)
    found = sentences(placed(module, platform, tensor_bits="8", **given))
    assert set(found) == set(rules)
    for rule, said in rules.items():
        assert said in found[rule]
