"""Runs the trials of a search: builds with given types of weights, in copies of this process."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import msgspec

from firmwright.cluster.local import run_here
from firmwright.cluster.order import Order, ReadOutput, Stop, make_order
from firmwright.errors import UserError
from firmwright.pipeline.artifacts import ACCURACY, FIRMWARE_SIZE
from firmwright.pipeline.job import Job
from firmwright.recipe.precision import Precision, format_precision
from firmwright.tune.variant_trials import ClusterObserver, repeat_arguments
from firmwright.verify.run_records import AccuracyRecord, Rates

TRIAL = "firmwright.tasks.programs:try_types"
"""The program that builds a trial."""

FIRMWARE = "firmware"


@dataclass(frozen=True)
class TrialResult:
    """The result of a trial, or the ``failure`` that explains a missing result.

    ``flash`` is the flash of the firmware in bytes. ``loss`` is the lost accuracy in points, or
    None if the recipe does not evaluate the accuracy.
    """

    failure: str = ""
    flash: int = 0
    loss: float | None = None


def run_trial(job: Job, precision: Precision) -> TrialResult:
    """Build the network with the types of ``precision``, and return its flash and its loss."""
    text = format_precision(precision)
    name = hashlib.sha256(text.encode()).hexdigest()[:12]
    order = make_trial_order(job, name, text)
    (tried,) = run_here([order], read_trial, 1, ClusterObserver(job), Stop())
    return tried


def make_trial_order(job: Job, name: str, text: str) -> Order:
    """Return the order of a trial. All trials of a job use one folder, one after another."""
    arguments = [*repeat_arguments(job), f"outdir={job.outdir}"]
    folder = job.cache / "precision" / job.platform.name
    files = [job.recipe.path, *job.recipe.bases]
    return make_order(name, TRIAL, files, folder, arguments, text)


def read_trial(_: Order, read: ReadOutput) -> TrialResult:
    """Return the result of a trial according to its output. An error becomes a failure."""
    try:
        return msgspec.json.decode(read(), type=TrialResult)
    except UserError as error:
        return TrialResult(str(error))


def read_tried(job: Job) -> TrialResult:
    """Return the result of a trial after its job has run."""
    loss = compute_loss(ACCURACY.read(job)) if job.has_stage("accuracy") else None
    return TrialResult("", FIRMWARE_SIZE.read(job).flash_bytes, loss)


def compute_loss(record: AccuracyRecord) -> float | None:
    """Return the accuracy of the first network minus the accuracy of the firmware, in points.

    The accuracy is the custom metric, or else the mean average precision, or else top-1. The result
    is None if top-1 is used and the samples have no labels.
    """
    if record.metric is not None:
        return subtract(record.metric, 100)
    if record.boxes is not None:
        rates = record.boxes.networks.items()
        return subtract({name: one.mean_average_precision for name, one in rates}, 100)
    return subtract(record.top1, 1) if record.labelled else None


def subtract(rates: Rates, points: int) -> float:
    """Return the first rate minus the firmware's rate, in points."""
    return round(points * (next(iter(rates.values())) - rates[FIRMWARE]), 6)
