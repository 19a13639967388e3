"""Defines the part of a recipe that describes the quantization of float networks and its limits."""

from __future__ import annotations

import msgspec

from firmwright.data.sample_sources import DataSource

Inputs = str | dict[str, DataSource]
"""The location of samples: one file, or a sorted mapping from input names to sources."""


class CalibrationSamples(msgspec.Struct, frozen=True):
    """The samples with which a device quantizes float layers.

    None in ``samples`` means all samples.
    """

    inputs: Inputs
    samples: int | None = None


class CalibrationOptions(msgspec.Struct, frozen=True):
    """The samples that show each tensor's values, and the method that selects the tensor's range.

    ``samples`` is the maximum number of samples, or None for all samples. Only the method
    ``percentile`` uses ``percentile``. The method ``model`` uses the ranges of a quantized model
    instead of ``inputs``.
    """

    method: str
    percentile: float
    inputs: Inputs | None = None
    samples: int | None = None


class LayerTypes(msgspec.Struct, frozen=True):
    """Integer types for the layers whose name matches a shell pattern. None keeps the default."""

    match: str
    activations: str | None = None
    weights: str | None = None


class KeepFloat(msgspec.Struct, frozen=True):
    """The parts that stay float32: layers by shell pattern, and operators by type."""

    layers: tuple[str, ...]
    operators: tuple[str, ...]


class SearchOptions(msgspec.Struct, frozen=True):
    """The limits of a search for the types of weights, and the types to try.

    ``accuracy`` is the maximum loss in points. ``flash`` is the maximum flash of the firmware in
    bytes.
    """

    types: tuple[str, ...]
    accuracy: float | None = None
    flash: int | None = None


class QuantizeOptions(msgspec.Struct, frozen=True):
    """The options of static post-training quantization.

    ``scheme`` is ``affine`` or ``pow2``. ``arithmetic`` is ``onnx`` (real results, rounded to
    quantized values) or ``shift``. ``io`` is ``integer`` (the firmware's inputs and outputs are
    quantized) or ``float32``. ``block`` is the number of input channels in a block of int4 weights.
    """

    scheme: str
    arithmetic: str
    activations: str
    weights: str
    per_channel: bool
    symmetric: bool
    equalize: bool
    compensate_rounding: bool
    bias_correction: bool
    io: str
    calibration: CalibrationOptions
    layers: tuple[LayerTypes, ...]
    keep_float: KeepFloat
    search: SearchOptions | None = None
    block: int | None = None

    @property
    def sees_samples(self) -> bool:
        return self.bias_correction or self.compensate_rounding

    @property
    def accepts_quantized(self) -> bool:
        """Return whether a quantized model is converted to a float network and quantized again."""
        return self.arithmetic == "shift" or self.search is not None

    @property
    def has_newer_types(self) -> bool:
        """Return whether any tensor has 16 or 4 bits, which ONNX supports since operator set 21."""
        types = [self.activations, self.weights]
        types += [t for entry in self.layers for t in (entry.activations, entry.weights) if t]
        types += self.search.types if self.search else ()
        return any(t.endswith(("int16", "int4")) for t in types)


class BoxThresholds(msgspec.Struct, frozen=True):
    """Limits for boxes, or None. Two boxes match if their overlap is at least ``iou``."""

    iou: float
    recall: float | None = None
    precision: float | None = None
    mean_average_precision: float | None = None


class Thresholds(msgspec.Struct, frozen=True):
    """Limits of values, or None for no limit.

    The build fails if a value is outside its limit. ``top1`` is in percent. ``top1_loss`` is in
    percentage points below the reference network, which is the float network, or the model in its
    runtime. ``snr`` in dB and ``cosine`` are limits for every output. ``metric`` is the minimum
    value of the custom metric.
    """

    top1: float | None = None
    top1_loss: float | None = None
    snr: float | None = None
    cosine: float | None = None
    metric: float | None = None
    boxes: BoxThresholds | None = None


class EvaluateOptions(msgspec.Struct, frozen=True):
    """The samples for comparisons of networks.

    ``labels`` is a ``.npy`` file of class numbers, or a ``.json`` file of boxes. ``metric`` is
    ``module:function`` in a module next to the recipe.
    """

    inputs: Inputs
    thresholds: Thresholds
    samples: int | None = None
    labels: str | None = None
    metric: str | None = None
