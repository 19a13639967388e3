"""Samples of the recipe that TIDL calibrates with: the quantization's, else the run's."""

from __future__ import annotations

from firmwright.data.samples import Sample, to_samples
from firmwright.errors import UserError
from firmwright.pipeline.artifacts import NETWORK_INTERFACE
from firmwright.pipeline.job import Job
from firmwright.pipeline.options import select_run_inputs
from firmwright.pipeline.samples import read_network_columns
from firmwright.recipe.quantization import Inputs
from firmwright.verify.batches import join_samples

FRAMES = "advanced_options:calibration_frames"
"""The option of ``tidl`` that says how many there are."""
NO_SAMPLES = (
    "target: tidl: there are no samples to calibrate with, and TI's tools would take random "
    "numbers; state `quantize: {calibration: {inputs: …}}`, or `run: {inputs: …}` for a model that "
    "is quantized already"
)


def calibration_inputs(job: Job) -> tuple[Inputs, int | None, str]:
    """Return where the samples are that TIDL calibrates with, how many, and the recipe's key.

    Raises UserError where the recipe names none.
    """
    quantize = job.recipe.quantize
    if quantize and quantize.calibration.inputs is not None:
        return quantize.calibration.inputs, quantize.calibration.samples, "quantize.calibration"
    given = select_run_inputs(job)
    if given is None:
        raise UserError(NO_SAMPLES)
    return given, None, "run" if job.recipe.run.inputs is not None else "evaluate"


def calibration_samples(job: Job, batch: int, frames: int, stated: bool) -> list[Sample]:
    """Return the frames that TIDL calibrates with, of ``batch`` samples each.

    There are ``frames`` of them, or fewer where the recipe did not state their number. Raises
    UserError, naming the recipe's key, for data that does not fit or is too little.
    """
    given, limit, key = calibration_inputs(job)
    try:
        columns = read_network_columns(job, NETWORK_INTERFACE.read(job), given, limit)
    except UserError as error:
        raise UserError(f"target: tidl: {key}.inputs, to calibrate with: {error}") from error
    held = min(len(c.arrays) for c in columns.values())
    wanted = (frames if stated else 1) * batch
    if held < wanted:
        asked = f"{FRAMES}={frames}" if stated else f"a batch of {batch}"
        raise UserError(
            f"target: tidl: {key}.inputs gives {held} samples to calibrate with; {asked} takes "
            f"{wanted}"
        )
    frames = min(frames, held // batch)
    return join_samples(to_samples(columns, frames * batch), batch)
