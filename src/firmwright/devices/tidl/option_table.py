"""Lists every option of ``tidl`` under TI's names, with the defaults of TI's several sources.

The sources do not agree with each other (:data:`PRESETS`). This table has the defaults of the
option tables of edgeai-tidl-tools (release 11_00_06_00). Other sources are ``compile_relay`` and
``tvmc`` of TI's TVM, and TI's tidlrunner (tools 11_02_16_00). Two defaults are not from the option
tables. TI's tidlrunner and edgeai-benchmark set the scales by chip. The importer in TI's TVM always
requests the conversion at a region's border.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from firmwright.targets.device_options import SWITCH, NumberRange, Option, OptionValues

Value = int | float | str | tuple[str, ...]
"""The value of an option. In the target string, commas separate the entries of a list."""

CALIBRATION_KEYS = (
    "advanced_options:activation_clipping",
    "advanced_options:weight_clipping",
    "advanced_options:bias_calibration",
    "advanced_options:channel_wise_quantization",
)
"""The options that only ``accuracy_level`` 9 reads."""
WIDE_RESULTS = "advanced_options:output_feature_16bit_names_list"
WIDE_WEIGHTS = "advanced_options:params_16bit_names_list"
CALIBRATION = (
    "accuracy_level",
    "advanced_options:calibration_iterations",
    "advanced_options:mixed_precision_factor",
    WIDE_RESULTS,
    WIDE_WEIGHTS,
    *CALIBRATION_KEYS,
)
"""The options for TIDL's quantization. Without quantization by TIDL, they have no effect."""


def advanced(name: str, default: Value, values: OptionValues, meaning: str) -> Option[Value]:
    return Option(f"advanced_options:{name}", default, values, meaning)


OPTIONS: Sequence[Option[Value]] = (
    Option(
        "preset",
        "tidl-tools",
        ("tidl-tools", "compile_relay", "tidlrunner", "tvmc"),
        "the source of the defaults of all other options",
    ),
    Option(
        "tensor_bits",
        8,
        ("8", "16", "32"),
        "the bits that TIDL quantizes a float network to; 32 keeps floats, which TI's tools run "
        "only on a PC. A quantized network has 8",
    ),
    Option(
        "accuracy_level",
        1,
        ("0", "1", "9"),
        "calibration: 0 simple, 1 with clipping and corrected biases, 9 by the options for "
            "clipping, biases and channels",
    ),
    Option("debug_level", 0, NumberRange(0, 6), "verbosity of TI's tools"),
    Option(
        "max_num_subgraphs",
        16,
        NumberRange(1),
        "the maximum number of regions; the regions with the most multiply-accumulates stay",
    ),
    Option(
        "min_macs",
        0,
        NumberRange(0),
        "the minimum of multiply-accumulates of a region (not an option of TI's tools)",
    ),
    Option(
        "deny_list:layer_type",
        (),
        (),
        "operators that TIDL does not run, by the names of `explain`, ONNX (`MaxPool`) or TFLite",
    ),
    Option("deny_list:layer_name", (), (), "layers that TIDL does not run"),
    Option("allow_list:layer_name", (), (), "the only layers that TIDL runs"),
    advanced("calibration_frames", 20, NumberRange(1), "samples that TIDL calibrates with"),
    advanced("calibration_iterations", 50, NumberRange(1), "rounds of TIDL's calibration"),
    advanced(
        "quantization_scale_type",
        4,
        ("0", "1", "4"),
        "scales: 0 any for weights, 1 powers of two, 4 per channel with a zero point. J721E "
            "does not support 4; its default is 1. TI's value 3 is for TFLite graphs; regions "
            "are ONNX graphs",
    ),
    advanced("activation_clipping", 1, SWITCH, "clip activations (`accuracy_level` 9)"),
    advanced("weight_clipping", 1, SWITCH, "clip weights (`accuracy_level` 9)"),
    advanced("bias_calibration", 1, SWITCH, "correct biases (`accuracy_level` 9)"),
    advanced(
        "channel_wise_quantization", 0, SWITCH, "a scale for each channel (`accuracy_level` 9)"
    ),
    Option(WIDE_RESULTS, (), (), "layers whose results have 16 bits, not 8"),
    Option(WIDE_WEIGHTS, (), (), "layers whose weights have 16 bits, not 8"),
    advanced(
        "mixed_precision_factor",
        -1,
        NumberRange(1, decimal=True, other_values=("-1",)),
        "TIDL chooses layers of 16 bits while the network's time stays below this multiple "
            "of its time with 8 bits. -1: it chooses no layers. The stand-in ignores the option",
    ),
    advanced("add_data_convert_ops", 3, ("0", "1", "2", "3"), "TIDL converts 1 inputs, 2 outputs, "
             "3 both"),
    advanced(
        "inference_mode", 0, ("0", "1", "2"), "0 one core, 1 for throughput, 2 for low latency"
    ),
    advanced("num_cores", 1, NumberRange(1, 8), "C7x cores of the chip that share the network"),
    advanced("single_core_layers_names_list", (), (), "layers that one core computes alone"),
    advanced("high_resolution_optimization", 0, SWITCH, "compute large images in pieces"),
    advanced("pre_batchnorm_fold", 1, SWITCH, "fold a normalization before a convolution"),
    advanced("batch_mode", 0, SWITCH, "join the samples of a batch along the width"),
    advanced("packetize_mode", 0, SWITCH, "pack weights that are mostly zero"),
    advanced("partial_init_during_compile", 0, SWITCH, "prepare for the chip while compiling"),
    advanced("network_name", "Subgraph", (), "beginning of the names in TI's artifacts"),
)  # fmt: skip


@dataclass(frozen=True)
class Defaults:
    """Default values by option, which apply if every fact of ``where`` has a listed value.

    Facts are the numbers of the platform's ``tidl``, the effective ``tensor_bits``, and ``rest``.
    ``rest`` is the device that computes the layers that TIDL does not run.
    """

    values: Mapping[str, Value]
    where: Mapping[str, Sequence[Value]]


def accuracy_defaults(level: int, iterations: int) -> Mapping[str, Value]:
    return {"accuracy_level": level, "advanced_options:calibration_iterations": iterations}


CHIP_DEFAULTS: Sequence[Defaults] = (
    Defaults({"advanced_options:quantization_scale_type": 1}, {"asymmetric_per_channel": (False,)}),
)
"""Defaults of a chip that apply with every preset."""

PRESETS: Mapping[str, Sequence[Defaults]] = {
    "tidl-tools": (),
    "compile_relay": (
        Defaults(accuracy_defaults(1, 3), {"tensor_bits": (8,)}),
        Defaults(accuracy_defaults(0, 1), {"tensor_bits": (16, 32)}),
        Defaults({"max_num_subgraphs": 64}, {"rest": ("c7x",)}),
    ),
    "tidlrunner": (
        Defaults(
            {
                "advanced_options:calibration_frames": 12,
                "advanced_options:calibration_iterations": 12,
            },
            {},
        ),
    ),
    "tvmc": (
        Defaults(
            {
                "advanced_options:calibration_frames": 2,
                "advanced_options:calibration_iterations": 5,
            },
            {},
        ),
    ),
}
"""Defaults in TI's sources that differ from its option tables. The last valid entry applies."""
