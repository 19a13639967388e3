"""What the quantization did (file ``quantized/quantization.json``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TensorQuantParams:
    """Quantization parameters of one tensor between layers."""

    tensor: str
    dtype: str
    scale: float
    zero_point: int


@dataclass(frozen=True)
class QuantizationRecord:
    """How a float network was quantized.

    ``samples`` are the digests of the calibration samples. ``kept_float`` names the operators that
    read and write float32 tensors only. ``notes`` are for the user.
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
