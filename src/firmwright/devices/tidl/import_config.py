"""Writes the text file of ``key = value`` for TI's import tool, one file per region.

The keys and their numbers are in the tool's ``--help``, in TI's user guide (TIDL-RT importer, 08_02
and later) and in ``itidl_ti.h``. The keys for raw data are from the importer in TI's TVM. Two facts
are not published and therefore unverified. One fact is the order of several inputs in a file of raw
data. The other fact is whether a graph with quantize operators may start with integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from firmwright.devices.tidl.artifact_records import RegionFiles
from firmwright.devices.tidl.option_table import OPTIONS, Value
from firmwright.devices.tidl.options import SCALE_TYPE, TidlOptions
from firmwright.errors import UserError
from firmwright.ir.quant_params import QuantParams
from firmwright.ir.tensors import Tensor

ONNX_MODEL = 2
RAW_DATA = 1
NCHW = 0
ELEMENT_TYPES = {"uint8": 0, "int8": 1, "int32": 5, "float32": 6, "int64": 8}
AXES = ("numBatches", "inDIM1", "inDIM2", "inNumChannels", "inHeight", "inWidth")

QUANTIZATION_STYLES = {0: 2, 1: 3, 4: 6}
"""``quantizationStyle`` for each value of ``quantization_scale_type``."""
UNUSED_STYLE = 2
"""The tool's default, for floats without quantization."""
CALIBRATION_OPTIONS = {0: 0, 1: 7}
"""``calibrationOption`` by ``accuracy_level``: 0 without calibration, 7 for clipping and biases."""
NO_ITERATIONS = -1
"""The tool's default of ``biasCalibrationIterations``, which TI uses for quantized graphs."""
CALIBRATION_BITS = {
    "activation_clipping": 1,
    "weight_clipping": 2,
    "bias_calibration": 4,
    "channel_wise_quantization": 8,
}
"""The bits whose sum is the ``calibrationOption`` of ``accuracy_level`` 9."""
OPTION_KEYS = {
    "debug_level": "debugTraceLevel",
    "advanced_options:output_feature_16bit_names_list": "outputFeature16bitNamesList",
    "advanced_options:params_16bit_names_list": "params16bitNamesList",
    "advanced_options:mixed_precision_factor": "mixedPrecisionFactor",
    "advanced_options:inference_mode": "inferenceMode",
    "advanced_options:num_cores": "numCores",
    "advanced_options:single_core_layers_names_list": "singleCoreLayersNames",
    "advanced_options:high_resolution_optimization": "enableHighResOptimization",
    "advanced_options:pre_batchnorm_fold": "foldPreBnConv2D",
    "advanced_options:packetize_mode": "packetizeMode",
}
"""The options that the tool reads, with their names in the tool's file."""
UNMAPPED_OPTIONS = tuple(
    f"advanced_options:{name}"
    for name in ("batch_mode", "partial_init_during_compile", "network_name")
)
"""Options of TI's runtimes for which the tool's file has no published key."""
DATA_CONVERT = "advanced_options:add_data_convert_ops"
ITERATIONS = "advanced_options:calibration_iterations"


@dataclass(frozen=True)
class RegionImport:
    """A region's data for the tool. ``quant_params`` has the inputs, then the outputs.

    ``prequantized`` is true if the sub-model contains a quantize operator. TIDL quantizes any other
    sub-model to ``bits``, unless ``bits`` is 32.
    """

    files: RegionFiles
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    quant_params: Sequence[QuantParams]
    bits: int
    prequantized: bool

    @property
    def is_calibrated(self) -> bool:
        return not self.prequantized and self.bits != 32


def format_import_config(region: RegionImport, options: TidlOptions, frames: int) -> str:
    """Return the text of the file.

    Every path in the text is relative to the file's folder. ``options`` are the options of the
    target. ``frames`` is the number of calibration samples.
    """
    files, inputs, outputs = region.files, region.inputs, region.outputs
    quant_params = region.quant_params[: len(inputs)], region.quant_params[len(inputs) :]
    values: dict[str, object] = {
        "modelType": ONNX_MODEL,
        "inputNetFile": f'"{files.model}"',
        "outputNetFile": f'"{files.net}"',
        "outputParamsFile": f'"{files.params_stem}"',
        "numParamBits": region.bits,
        "numFeatureBits": region.bits,
        "preQuantizedModel": int(region.prequantized),
        **describe_calibration(region, options, frames),
        "inFileFormat": RAW_DATA,
        "inData": f'"{files.calibration}"',
        "inDataNamesList": format_names(t.name for t in inputs),
        "outDataNamesList": format_names(t.name for t in outputs),
        "addDataConvertToNet": options.number(DATA_CONVERT),
        **format_tensors("in", inputs, quant_params[0]),
        "rawDataInElementType": format_numbers(element_type(t) for t in inputs),
        **{
            axis: format_numbers(lengths)
            for axis, lengths in zip(AXES, axis_lengths(inputs), strict=True)
        },
        **format_tensors("out", outputs, quant_params[1]),
        **map_options(options.values),
    }
    return "".join(f"{key} = {value}\n" for key, value in values.items())


def describe_calibration(
    region: RegionImport, options: TidlOptions, frames: int
) -> Mapping[str, int]:
    style = QUANTIZATION_STYLES[options.number(SCALE_TYPE)]
    if region.is_calibrated:
        return {
            "quantizationStyle": style,
            "calibrationOption": calibration_option(options),
            "biasCalibrationIterations": options.number(ITERATIONS),
            "numFrames": frames,
            "numFramesBiasCalibration": frames,
        }
    return {
        "quantizationStyle": style if region.prequantized else UNUSED_STYLE,
        "calibrationOption": 0,
        "biasCalibrationIterations": NO_ITERATIONS if region.prequantized else 1,
        "numFrames": frames,
        "numFramesBiasCalibration": frames if region.prequantized else 1,
    }


def calibration_option(options: TidlOptions) -> int:
    level = options.number("accuracy_level")
    if level in CALIBRATION_OPTIONS:
        return CALIBRATION_OPTIONS[level]
    bits = CALIBRATION_BITS.items()
    return sum(bit for name, bit in bits if options.number(f"advanced_options:{name}"))


def map_options(options: Mapping[str, Value]) -> dict[str, object]:
    stated = {
        OPTION_KEYS[name]: value
        for name, value in options.items()
        if name in OPTION_KEYS and value != ()
    }
    return {k: format_names(v) if isinstance(v, tuple) else v for k, v in stated.items()}


def find_unmapped_options(options: TidlOptions) -> list[str]:
    """Return the options that differ from their defaults but have no key of the tool."""
    defaults = {option.name: option.default for option in OPTIONS}
    return [name for name in UNMAPPED_OPTIONS if options.values[name] != defaults[name]]


def format_names(listed: Iterable[str]) -> str:
    return f'"{",".join(listed)}"'


def format_tensors(
    side: str, tensors: Sequence[Tensor], quant_params: Sequence[QuantParams]
) -> Mapping[str, str]:
    """Return the common keys of inputs (``in``) and outputs (``out``), with one number per
    tensor."""
    return {
        f"{side}ElementType": format_numbers(element_type(t) for t in tensors),
        f"{side}TensorScale": format_numbers(1 / g.scale for g in quant_params),
        f"{side}ZeroPoint": format_numbers(g.zero_point for g in quant_params),
        f"{side}Layout": format_numbers(NCHW for _ in tensors),
    }


def format_numbers(numbers: Iterable[float]) -> str:
    return " ".join(f"{number:.9g}" for number in numbers)


def element_type(tensor: Tensor) -> int:
    if tensor.dtype not in ELEMENT_TYPES:
        known = ", ".join(ELEMENT_TYPES)
        raise UserError(
            f"target: tidl: '{tensor.name}' is {tensor.dtype}; expected {known}: deny its layer "
            "with deny_lists"
        )
    return ELEMENT_TYPES[tensor.dtype]


def axis_lengths(tensors: Sequence[Tensor]) -> list[list[int]]:
    """Return the lengths of TIDL's six axes for all tensors. Short shapes fill the last axes.

    The first axis of a shape with four or more axes is the batch. The batch of other shapes is 1.
    """
    rows = []
    for tensor in tensors:
        whole = tensor.shape if len(tensor.shape) > 3 else (1, *tensor.shape)
        rows.append([whole[0], *(1,) * (len(AXES) - len(whole)), *whole[1:]])
    return [list(column) for column in zip(*rows, strict=True)]
