"""The records of the stages run and accuracy: ``run/run.json`` and ``accuracy/accuracy.json``."""

from __future__ import annotations

from dataclasses import dataclass, field

from firmwright.data.samples import Range
from firmwright.data.signals import SignalQuality
from firmwright.quantize.quantization_record import LayerAccuracy
from firmwright.recipe import Tolerance
from firmwright.recipe.quantization import Thresholds

Rates = dict[str, float]
"""Percentages, or a metric's values, by network."""


@dataclass(frozen=True, slots=True)
class NetworkValues:
    """The facts of a network about the values of its inputs and outputs (``values.json``).

    ``ranges`` are the limits that it keeps of inputs of floats, by name; ``whole`` names the inputs
    whose floats stand for integers. ``output_steps`` is the size of a step of each output.
    """

    ranges: dict[str, Range]
    whole: tuple[str, ...]
    output_steps: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ReferenceRecord:
    """Which runtime the reference is, with its version (``reference.json``)."""

    runtime: str


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far outputs are from the reference's, over all samples and outputs.

    Of the ``values``, ``mismatches`` count those that are further off than the tolerance, and
    ``differences`` those that differ at all. ``exact_samples`` counts samples without a difference.
    """

    values: int
    mismatches: int
    differences: int
    exact_samples: int
    max_difference: float


@dataclass(frozen=True, slots=True)
class RunRecord(Agreement):
    """How the firmware ran, and how its outputs agree with the reference's.

    Each of the ``samples`` is a batch of ``batch``, and takes one inference of ``macs``.
    ``instructions`` were counted inside the network's run function: ``instructions`` is the mean of
    one inference, rounded down, ``instructions_total`` the sum over all samples, by function in
    ``instructions_by_function``. ``instructions_by_region`` has those of a region's function and of
    all that it calls. They are None, or empty, if the emulator cannot count. ``inputs`` are the
    digests of the single samples that the recipe names, none of random ones. ``drawn`` has the
    limits between which random floats were drawn, by input. ``counts`` are what emulated devices
    counted in all samples: transfers, calls between cores, their bytes. The instructions of an
    emulated device while it is waited for are in ``instructions_by_function`` alone.
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


@dataclass(frozen=True, slots=True)
class OutputAccuracy:
    """One output of every network but the first, by network."""

    name: str
    signals: dict[str, SignalQuality]


@dataclass(frozen=True, slots=True)
class BoxRates:
    """``recall``: the part of the right boxes that a network found. ``precision``: of the boxes
    that it found, the part that is right. All rates are 1 if there is nothing to count.
    """

    found: int
    recall: float
    precision: float
    mean_average_precision: float


@dataclass(frozen=True, slots=True)
class BoxAccuracy:
    """Boxes are the same from an overlap of ``iou`` on; ``right`` counts those that are right."""

    iou: float
    right: int
    networks: dict[str, BoxRates]


@dataclass(frozen=True, slots=True)
class AccuracyRecord:
    """How near networks are to a reference network, on the samples of `evaluate`.

    The first network is the reference of the others. The networks are ``float32``, ``quantized``
    and ``firmware``; for a model that is compiled as it is, ``reference`` and ``firmware``.

    ``samples`` are the digests of the samples, ``calibrated`` how many of them the calibration saw
    too. ``top1`` is the rate of the labels' classes or, without labels, of the first network's;
    ``agreement`` always of the first network's. ``reference`` names the runtime that defines what
    the firmware is to compute, ``firmware`` what compiled the network's C for the machine that
    built it. ``layers`` is None without a float network. ``boxes`` are those of a recipe
    with a detection.
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
