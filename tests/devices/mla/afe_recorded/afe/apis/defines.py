"""api: targets, calibration methods, and the parameters of the quantization."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..ir.defines import BiasCorrectionType, RequantizationMode


class Platform(Enum):
    GEN1 = "gen1"
    GEN2 = "gen2"


gen1_target = Platform.GEN1
gen2_target = Platform.GEN2


@dataclass(frozen=True)
class HistogramMSEMethod:
    num_bins: int


@dataclass(frozen=True)
class MinMaxMethod:
    pass


@dataclass(frozen=True)
class MovingAverageMinMaxMethod:
    pass


@dataclass(frozen=True)
class HistogramEntropyMethod:
    num_bins: int


@dataclass(frozen=True)
class HistogramPercentileMethod:
    percentile_value: float
    num_bins: int


Method = (
    HistogramMSEMethod
    | MinMaxMethod
    | MovingAverageMinMaxMethod
    | HistogramEntropyMethod
    | HistogramPercentileMethod
)


@dataclass(frozen=True)
class QuantizationScheme:
    asymmetric: bool
    per_channel: bool
    bits: int = 8
    bf16: bool = False


def quantization_scheme(asymmetric: bool, per_channel: bool, bits: int = 8) -> QuantizationScheme:
    """Only 1.4 and 1.5 document 16 bits."""
    if bits != 8:
        raise ValueError(f"release 2 has no quantization to {bits} bits")
    return QuantizationScheme(asymmetric, per_channel, bits)


def bfloat16_scheme() -> QuantizationScheme:
    return QuantizationScheme(False, False, 16, bf16=True)


@dataclass(frozen=True)
class QuantizationParams:
    """Activations have one scale per tensor; weights have no zero point."""

    calibration_method: Method
    activation_quantization_scheme: QuantizationScheme
    weight_quantization_scheme: QuantizationScheme
    requantization_mode: RequantizationMode = RequantizationMode.sima
    node_names: frozenset[str] | set[str] = frozenset()
    custom_quantization_configs: None = None
    biascorr_type: BiasCorrectionType = BiasCorrectionType.NONE
    channel_equalization: bool = False
    smooth_quant: bool = False
    prefer_int8_udf: bool = True

    def __post_init__(self) -> None:
        activations = self.activation_quantization_scheme
        if activations.per_channel:
            raise ValueError("activations are quantized by tensor only")
        if self.weight_quantization_scheme.asymmetric:
            raise ValueError("weights are quantized symmetrically only")
        if self.weight_quantization_scheme.bf16 and not activations.bf16:
            raise ValueError("weights of bfloat16 need activations of bfloat16")


default_quantization = QuantizationParams(
    HistogramMSEMethod(2048),  # the number of the guide's example; no page states the default
    quantization_scheme(True, False),
    quantization_scheme(False, True),
    node_names={""},
)
