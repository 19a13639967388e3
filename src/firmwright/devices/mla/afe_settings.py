"""Computes the settings of SiMa's ``afe`` from a recipe's keys and from the target's options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from firmwright.devices.mla.options import MlaOptions
from firmwright.errors import UserError
from firmwright.recipe.quantize_keys import QuantizeOptions

METHODS: Mapping[str, str] = {
    "minmax": "MinMaxMethod()",
    "moving_average": "MovingAverageMinMaxMethod()",
    "mse": "HistogramMSEMethod(num_bins={bins})",
    "entropy": "HistogramEntropyMethod(num_bins={bins})",
    "percentile": "HistogramPercentileMethod(percentile_value={percentile}, num_bins={bins})",
}
"""The ``afe`` object for each value of the recipe's ``quantize.calibration.method``."""


QUANTIZE = "quantize"
CONVERT = "convert_to_sima_quantization"
SEARCH = "quantize_with_accuracy_feedback"
"""The functions of a loaded network that return a quantized model."""


@dataclass(frozen=True)
class Argument:
    """A keyword argument of ``afe`` in the script's format, and its default in ``afe``."""

    name: str
    value: str
    default: str


@dataclass(frozen=True)
class AfeSettings:
    """The settings in the script.

    ``quantization`` has fields of ``QuantizationParams``. Other fields keep the defaults of
    ``afe``. ``quantize`` has keyword arguments of the network's function ``function``. ``compile``
    has keyword arguments of the network's function ``compile``.
    """

    chip: str
    function: str
    quantization: tuple[tuple[str, str], ...]
    quantize: tuple[Argument, ...]
    compile: tuple[Argument, ...]

    @property
    def names(self) -> list[str]:
        """Return the names that the script imports from ``afe.apis.defines``, sorted."""
        if self.function == CONVERT:
            return [f"{self.chip}_target"]
        values = " ".join(value for _, value in self.quantization)
        methods = [text.partition("(")[0] for text in METHODS.values()]
        known = [*methods, "bfloat16_scheme", "quantization_scheme"]
        used = [name for name in known if f"{name}(" in values]
        return sorted([*used, "default_quantization", f"{self.chip}_target"])


def make_settings(options: MlaOptions, quantize: QuantizeOptions | None, batch: int) -> AfeSettings:
    """Return the settings of ``afe``.

    Raises UserError if ``afe`` does not support the recipe's quantization.
    """
    if options.converts and quantize is not None:
        raise UserError(
            f"target: mla: {CONVERT} keeps the model's quantization, and the recipe has "
            "`quantize`; remove one of them"
        )
    fields = {} if options.converts else {**map_recipe(options, quantize), **map_options(options)}
    return AfeSettings(
        options.generation,
        CONVERT if options.converts else SEARCH if options.evaluates else QUANTIZE,
        tuple(fields.items()),
        list_arguments(options),
        (
            Argument("batch_size", str(batch), "1"),
            Argument("compress", str(options.is_on("compress")), "True"),
            Argument(
                "l2_caching_mode",
                f"L2CachingMode.{options.values['l2_caching_mode'].upper()}",
                "L2CachingMode.NONE",
            ),
        ),
    )


def list_arguments(options: MlaOptions) -> tuple[Argument, ...]:
    any_shape = flag("any_shape_on_mla", options)
    if options.converts:
        mode = f"RequantizationMode.{options.values['requantization_mode']}"
        return (Argument("requantization_mode", mode, "RequantizationMode.sima"), any_shape)
    moves = flag("automatic_layout_conversion", options)
    if not options.evaluates:
        return (flag("arm_only", options), moves, any_shape)
    steps = options.values["max_optimization_steps"]
    return (
        Argument("target_accuracy", options.values["target_accuracy"], "None"),
        Argument("max_optimization_steps", steps.replace("none", "None"), "None"),
        moves,
        any_shape,
    )


def flag(name: str, options: MlaOptions) -> Argument:
    return Argument(name, str(options.is_on(name)), "False")


def map_recipe(options: MlaOptions, quantize: QuantizeOptions | None) -> dict[str, str]:
    """Return the fields for the recipe's ``quantize``, or {} without this key."""
    if quantize is None:
        return {}
    if options.values["precision"] == "bf16":
        raise UserError(
            "target: mla: precision is bf16, and the recipe's `quantize` makes 8 bits; remove "
            "one of them"
        )
    for wrong, value in find_unmapped(quantize):
        raise UserError(
            f"target: mla: {wrong} is {value}, which SiMa's quantizer does not support; omit it"
        )
    calibration = quantize.calibration
    method = METHODS[calibration.method]
    return {
        "calibration_method": method.format(
            bins=options.values["num_bins"], percentile=calibration.percentile
        ),
        "activation_quantization_scheme": format_scheme(not quantize.symmetric, False),
        "weight_quantization_scheme": format_scheme(False, quantize.per_channel),
        "biascorr_type": format_bias("regular" if quantize.bias_correction else "none"),
        "channel_equalization": str(quantize.equalize),
    }


def find_unmapped(quantize: QuantizeOptions) -> list[tuple[str, str]]:
    """Return the recipe's keys, with their values, that ``afe`` does not support."""
    stated = {
        "quantize.scheme": (quantize.scheme, ("affine",)),
        "quantize.arithmetic": (quantize.arithmetic, ("onnx",)),
        "quantize.activations": (quantize.activations, ("int8",)),
        "quantize.weights": (quantize.weights, ("int8",)),
        "quantize.calibration.method": (quantize.calibration.method, tuple(METHODS)),
    }
    wrong = [(key, value) for key, (value, known) in stated.items() if value not in known]
    if quantize.compensate_rounding:
        wrong.append(("quantize.compensate_rounding", "true"))
    if quantize.layers:
        wrong.append(("quantize.layers", "not empty"))
    if quantize.keep_float.layers or quantize.keep_float.operators:
        wrong.append(("quantize.keep_float", "not empty (use the option unquantized_nodes)"))
    return wrong


def map_options(options: MlaOptions) -> dict[str, str]:
    """Return the fields for options that differ from their defaults."""
    fields = {}
    if options.values["precision"] == "bf16":
        scheme = "bfloat16_scheme()"
        fields["activation_quantization_scheme"] = scheme
        fields["weight_quantization_scheme"] = scheme
    if options.values["bias_correction"] != "recipe":
        fields["biascorr_type"] = format_bias(options.values["bias_correction"])
    if options.values["requantization_mode"] != "sima":
        fields["requantization_mode"] = (
            f"RequantizationMode.{options.values['requantization_mode']}"
        )
    if options.is_on("smooth_quant"):
        fields["smooth_quant"] = "True"
    if not options.is_on("prefer_int8_udf"):
        fields["prefer_int8_udf"] = "False"
    if options.unquantized_nodes:
        fields["node_names"] = f"set({options.unquantized_nodes!r})"
    return fields


def format_scheme(asymmetric: bool, per_channel: bool) -> str:
    return f"quantization_scheme(asymmetric={asymmetric}, per_channel={per_channel}, bits=8)"


def format_bias(kind: str) -> str:
    return f"BiasCorrectionType.{kind.upper()}"
