"""The part of a recipe that says how a float network becomes integers, and what that may cost."""

from __future__ import annotations

import msgspec

from firmwright.data.sample_sources import DataSource

Inputs = str | dict[str, DataSource]
"""Where samples are, as in ``run.inputs``: one file, or sources by input name, sorted."""


class CalibrationSamples(msgspec.Struct, frozen=True):
    """The samples by which a device quantizes float layers itself; ``samples`` None takes all."""

    inputs: Inputs
    samples: int | None = None


class CalibrationOptions(msgspec.Struct, frozen=True):
    """The samples that show what values each tensor takes, and how its range is chosen.

    ``samples`` limits their number; None takes all. ``percentile`` is only for that method.
    The method ``model`` takes the ranges that a quantized model states: there are no ``inputs``.
    """

    method: str
    percentile: float
    inputs: Inputs | None = None
    samples: int | None = None


class LayerTypes(msgspec.Struct, frozen=True):
    """Integer types for the layers whose name matches a shell pattern; None keeps the default."""

    match: str
    activations: str | None = None
    weights: str | None = None


class KeepFloat(msgspec.Struct, frozen=True):
    """What stays float32: layers by shell patterns of their names, operators by their type."""

    layers: tuple[str, ...]
    operators: tuple[str, ...]


class QuantizeOptions(msgspec.Struct, frozen=True):
    """Static post-training quantization; ``scheme`` is ``affine`` or ``pow2``.

    ``arithmetic`` is ``onnx`` (results are real numbers, rounded to the grid) or ``shift``.
    ``io`` is ``integer`` (the firmware's inputs and outputs are on their grids) or ``float32``.
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

    @property
    def sees_samples(self) -> bool:
        """Whether weights or biases follow from what layers compute on the calibration samples."""
        return self.bias_correction or self.compensate_rounding

    @property
    def sixteen_bit(self) -> bool:
        """Whether any tensor has 16 bits, which ONNX can say since operator set 21."""
        types = [self.activations, self.weights]
        types += [t for entry in self.layers for t in (entry.activations, entry.weights) if t]
        return any(t.endswith("16") for t in types)


class BoxThresholds(msgspec.Struct, frozen=True):
    """Boxes are the same from an overlap of ``iou`` on; None is no limit."""

    iou: float
    recall: float | None = None
    precision: float | None = None
    mean_average_precision: float | None = None


class Thresholds(msgspec.Struct, frozen=True):
    """What fails the build; None is no limit.

    ``top1`` is in per cent, ``top1_loss`` in percentage points below the network that is the
    measure (the float one, or the model in its own runtime), ``snr`` in dB and ``cosine`` for
    every output, ``metric`` the least value of the user's own metric.
    """

    top1: float | None = None
    top1_loss: float | None = None
    snr: float | None = None
    cosine: float | None = None
    metric: float | None = None
    boxes: BoxThresholds | None = None


class EvaluateOptions(msgspec.Struct, frozen=True):
    """The samples on which networks are compared.

    ``labels`` is an ``.npy`` of class numbers, or a ``.json`` of boxes; ``metric`` is
    ``module:function`` of a module beside the recipe.
    """

    inputs: Inputs
    thresholds: Thresholds
    samples: int | None = None
    labels: str | None = None
    metric: str | None = None
