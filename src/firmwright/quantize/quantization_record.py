"""Records how a network and its layers were quantized (file ``quantized/quantization.json``)."""

from __future__ import annotations

from dataclasses import dataclass

from firmwright.data.signals import SignalQuality


@dataclass(frozen=True, slots=True)
class TensorQuantParams:
    """Quantization parameters of one tensor between layers."""

    tensor: str
    dtype: str
    scale: float
    zero_point: int


@dataclass(frozen=True, slots=True)
class QuantizationRecord:
    """The record of a float network's quantization.

    ``samples`` are the digests of the calibration samples. ``kept_float`` names the operators that
    read and write only float32 tensors. ``notes`` are messages for the user.
    """

    engine: str
    scheme: str
    activations: str
    weights: str
    per_channel: bool
    method: str
    samples: tuple[str, ...]
    tensors: tuple[TensorQuantParams, ...]
    kept_float: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LayerAccuracy:
    """The result of a layer of the quantized network, compared with the float network's result.

    ONNX Runtime evaluates both networks. ``lost`` is the SNR of the layer's worst input minus the
    layer's SNR, in dB.
    """

    layer: str
    tensor: str
    signal: SignalQuality
    lost: float | None
