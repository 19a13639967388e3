"""Defines the records of the stages run and accuracy.

The files are ``run/run.json`` and ``accuracy/accuracy.json``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from firmwright.data.samples import Range
from firmwright.data.signals import SignalQuality
from firmwright.quantize.quantization_record import LayerAccuracy
from firmwright.recipe.quantize_keys import Thresholds
from firmwright.recipe.recipe import Tolerance

Rates = dict[str, float]
"""The percentage, or the value of a metric, of each network."""


@dataclass(frozen=True, slots=True)
class NetworkValues:
    """The facts of a network about the values of its inputs and outputs (``values.json``).

    ``ranges`` maps float inputs to the limits of the values that the network distinguishes.
    ``whole`` names the inputs whose floats represent integers. ``output_steps`` is the step size of
    each output.
    """

    ranges: dict[str, Range]
    whole: tuple[str, ...]
    output_steps: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ReferenceRecord:
    """The runtime of the reference, and its version (``reference.json``)."""

    runtime: str


@dataclass(frozen=True, slots=True)
class Agreement:
    """The distance of outputs from the reference's outputs, over all samples and outputs.

    ``mismatches`` is the number of ``values`` beyond the tolerance. ``differences`` is the number
    of values that differ. ``exact_samples`` is the number of samples without a difference.
    """

    values: int
    mismatches: int
    differences: int
    exact_samples: int
    max_difference: float


@dataclass(frozen=True, slots=True)
class RunRecord(Agreement):
    """The run of the firmware, and the agreement of its outputs with the reference's outputs.

    Each of the ``samples`` is a batch of ``batch``, and needs one inference. ``macs`` are the
    multiply-accumulates of one inference. ``inputs`` are the SHA-256 digests of the single samples
    that the recipe names, and empty for random samples. ``drawn`` maps inputs to the limits of
    their random floats.

    Instructions are counted inside the network's run function. The counts are None, or empty, if
    the emulator cannot count. ``instructions`` is the mean of one inference, rounded down.
    ``instructions_total`` is the sum over all samples, and ``instructions_by_function`` divides it
    by function. ``instructions_by_region`` has the instructions of a region's function and of all
    functions that it calls. The instructions of an emulated device during the waiting of another
    device are only in ``instructions_by_function``.

    ``cycles_total`` and ``cycles_by_region`` are the clock cycles of the counted instructions. The
    values are None and empty if the cycles are unknown. ``cycles_source`` is the method that
    determines the cycles. ``cycles_by_function`` divides all cycles by function. ``stalls`` has the
    cycles of each kind in which no instruction retired, if the emulator reports stalls.

    ``counts`` are the events that emulated devices counted in all samples: transfers, calls between
    cores, and their bytes.
    """

    emulator: str
    reference: str
    samples: int
    batch: int
    macs: int
    instructions: int | None
    instructions_total: int | None
    instructions_by_function: dict[str, int]
    instructions_by_region: dict[str, int]
    tolerance: Tolerance
    inputs: tuple[str, ...] = ()
    drawn: dict[str, Range] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    cycles_total: int | None = None
    cycles_source: str | None = None
    cycles_by_region: dict[str, int] = field(default_factory=dict)
    cycles_by_function: dict[str, int] = field(default_factory=dict)
    stalls: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OutputAccuracy:
    """One output of every network except the first. ``signals`` has an entry per network."""

    name: str
    signals: dict[str, SignalQuality]


@dataclass(frozen=True, slots=True)
class BoxRates:
    """The rates of a network's boxes.

    ``recall`` is the fraction of the correct boxes that the network found. ``precision`` is the
    fraction of the found boxes that are correct. A rate is 1 if it has no boxes to count.
    """

    found: int
    recall: float
    precision: float
    mean_average_precision: float


@dataclass(frozen=True, slots=True)
class BoxAccuracy:
    """The accuracy of boxes.

    Boxes match if the boxes overlap by at least ``iou``. ``right`` is a number.
    """

    iou: float
    right: int
    networks: dict[str, BoxRates]


@dataclass(frozen=True, slots=True)
class AccuracyRecord:
    """The accuracy of networks, compared with a reference network on the samples of `evaluate`.

    The first network is the reference of the other networks. The networks are ``float32``,
    ``quantized`` and ``firmware``. The networks are ``reference`` and ``firmware`` if the build
    does not quantize the model.

    ``samples`` are the digests of the samples. ``calibrated`` is the number of samples that the
    calibration also used. ``top1`` is the rate of agreement with the labels or, if there are no
    labels, with the first network's classes. ``agreement`` always compares with the first network's
    classes. ``reference`` names the runtime that defines the correct results of the firmware.
    ``firmware`` names the compiler that built the network's C code for the machine of the build.
    ``layers`` is None if there is no float network. ``boxes`` is None if the recipe has no
    detection.
    """

    samples: tuple[str, ...]
    calibrated: int
    labelled: bool
    reference: str
    firmware: str
    outputs: tuple[OutputAccuracy, ...]
    layers: tuple[LayerAccuracy, ...] | None
    top1: Rates
    agreement: Rates
    metric: Rates | None
    boxes: BoxAccuracy | None
    thresholds: Thresholds
