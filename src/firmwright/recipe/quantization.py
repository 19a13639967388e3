"""The part of a recipe that says how a float network becomes integers, and what that may cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from firmwright.data.sources import Source

Inputs = str | tuple[tuple[str, Source], ...]
"""Where samples are, as in ``run.inputs``: one file, or (input name, source) pairs."""


@dataclass(frozen=True)
class CalibrationOptions:
    """The samples that show what values each tensor takes, and how its range is chosen.

    ``samples`` limits their number; None takes all. ``percentile`` is only for that method.
    """

    inputs: Inputs
    samples: int | None
    method: str
    percentile: float


@dataclass(frozen=True)
class LayerTypes:
    """Integer types for the layers whose name matches a shell pattern; None keeps the default."""

    match: str
    activations: str | None
    weights: str | None


@dataclass(frozen=True)
class KeepFloat:
    """What stays float32: layers by shell patterns of their names, operators by their type."""

    layers: tuple[str, ...]
    operators: tuple[str, ...]


@dataclass(frozen=True)
class QuantizeOptions:
    """Static post-training quantisation; ``scheme`` is ``affine`` or ``pow2``.

    ``io`` is ``integer`` (the firmware's inputs and outputs are on their grids) or ``float32``.
    """

    scheme: str
    activations: str
    weights: str
    per_channel: bool
    symmetric: bool
    equalize: bool
    bias_correction: bool
    io: str
    calibration: CalibrationOptions
    layers: tuple[LayerTypes, ...]
    keep_float: KeepFloat

    @property
    def sixteen_bit(self) -> bool:
        """Whether any tensor has 16 bits, which ONNX can say since operator set 21."""
        types = [self.activations, self.weights]
        types += [t for entry in self.layers for t in (entry.activations, entry.weights) if t]
        return any(t.endswith("16") for t in types)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> QuantizeOptions:
        """Return the options of a recipe's key ``quantize``, defaults filled in."""
        calibration = data["calibration"]
        return cls(
            **{k: data[k] for k in ("scheme", "activations", "weights", "per_channel")},
            **{k: data[k] for k in ("symmetric", "equalize", "bias_correction", "io")},
            calibration=CalibrationOptions(
                inputs=read_inputs(calibration["inputs"]),
                samples=calibration.get("samples"),
                method=calibration["method"],
                percentile=float(calibration["percentile"]),
            ),
            layers=tuple(
                LayerTypes(entry["match"], entry.get("activations"), entry.get("weights"))
                for entry in data["layers"]
            ),
            keep_float=KeepFloat(
                tuple(data["keep_float"]["layers"]), tuple(data["keep_float"]["operators"])
            ),
        )


@dataclass(frozen=True)
class Thresholds:
    """What fails the build; None is no limit.

    ``top1_loss`` is in percentage points below the float network, ``snr`` in dB and ``cosine``
    for every output, ``metric`` the least value of the user's own metric.
    """

    top1_loss: float | None
    snr: float | None
    cosine: float | None
    metric: float | None


@dataclass(frozen=True)
class EvaluateOptions:
    """The samples that judge the quantised network.

    ``labels`` is an ``.npy`` of class numbers, or ``file.npz:array``; ``metric`` is
    ``module:function`` of a module beside the recipe.
    """

    inputs: Inputs
    samples: int | None
    labels: str | None
    metric: str | None
    thresholds: Thresholds

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> EvaluateOptions:
        """Return the options of a recipe's key ``evaluate``."""
        limits = data["thresholds"]
        names = ("top1_loss", "snr", "cosine", "metric")
        values = {n: None if limits.get(n) is None else float(limits[n]) for n in names}
        return cls(
            inputs=read_inputs(data["inputs"]),
            samples=data.get("samples"),
            labels=data.get("labels"),
            metric=data.get("metric"),
            thresholds=Thresholds(**values),
        )


def read_inputs(given: Any) -> Inputs:
    """Return what a recipe's normal form says of samples, with the inputs in order."""
    if not isinstance(given, Mapping):
        return str(given)
    return tuple((name, Source.from_dict(source)) for name, source in sorted(given.items()))


def plain(options: QuantizeOptions | EvaluateOptions | None) -> dict[str, Any] | None:
    """Return what ``from_data`` takes, or None."""
    if options is None:
        return None
    data = asdict(options)
    holder = data if isinstance(options, EvaluateOptions) else data["calibration"]
    if isinstance(holder["inputs"], tuple):
        stated = options if isinstance(options, EvaluateOptions) else options.calibration
        assert not isinstance(stated.inputs, str)
        holder["inputs"] = {name: asdict(source) for name, source in stated.inputs}
    return data
