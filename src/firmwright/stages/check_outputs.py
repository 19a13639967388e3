"""Compares the firmware's outputs with the reference or, if different, with float64 results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firmwright.data.samples import Sample
from firmwright.errors import UserError
from firmwright.ir.tensors import ModelInterface
from firmwright.models.formats import ReferenceOutputs
from firmwright.pipeline import artifacts, recipe_samples
from firmwright.pipeline.artifact import ARRAYS, write_file
from firmwright.pipeline.job import Job
from firmwright.stages.first_layer import describe_first_layer
from firmwright.verify.batches import join_outputs
from firmwright.verify.compare import (
    DifferenceError,
    compare,
    compute_share,
    count_differences,
)
from firmwright.verify.run_records import Agreement

Outputs = Sequence[Sequence[NDArray[Any]]]


LARGEST_SHARE = 0.01
"""The maximum distance of the two references, relative to an output's range, if the firmware's
values do not all equal the values in float64.
"""


@dataclass(frozen=True)
class Case:
    """The outputs of the firmware for samples. ``found`` has the outputs of each batch."""

    job: Job
    interface: ModelInterface
    found: Outputs

    def join(self, reference: ReferenceOutputs) -> Outputs:
        layout = recipe_samples.read_batch_layout(self.job, self.interface)
        return join_outputs(reference.outputs, layout.size, layout.output_axes)

    def compare_with(self, reference: ReferenceOutputs) -> Agreement:
        """Return the agreement with a reference. Raises UserError if the tolerance is exceeded."""
        outputs, tolerance = self.interface.outputs, self.job.recipe.run.tolerance
        return compare(outputs, self.found, self.join(reference), tolerance, find_steps(self.job))


def judge(
    job: Job,
    interface: ModelInterface,
    alone: Sequence[Sample],
    outputs: Outputs,
    reference: ReferenceOutputs,
) -> tuple[ReferenceOutputs, Agreement]:
    """Compare the firmware's batches. Return the chosen reference and the agreement.

    ONNX Runtime adds products in float32, and deep networks increase the rounding errors. Therefore
    outputs beyond the tolerance are accepted in case of agreement with the model in float64. If the
    two references are far apart, every value of the firmware must equal the value in float64, and
    the reference must be of the same samples.
    Raises UserError if the outputs agree with neither reference. In this case, samples and outputs
    are written to a file. The message names the first layer that differs if rounding does not
    explain the difference.
    """
    case = Case(job, interface, outputs)
    wrong = False
    try:
        return reference, case.compare_with(reference)
    except UserError as error:
        message, wrong = str(error), isinstance(error, DifferenceError)
    sides = {"firmware": outputs, "reference": case.join(reference)}
    try:
        exact = recipe_samples.run_in_float64(job, interface, alone)
    except UserError as error:
        exact, message = None, f"{message}\n  in float64: {error}"
    if exact is not None:
        sides["float64"] = case.join(exact)
        apart = {name: count_differences(o, sides["float64"]) for name, o in sides.items()}
        share = compute_share(sides["reference"], sides["float64"])
        remark = (
            f"{reference.runtime} differs from float64 in {apart['reference']} values, by up to "
            f"{share:.2g} of the range; the firmware in {apart['firmware']}"
        )
        try:
            agreement = case.compare_with(exact)
            if share > LARGEST_SHARE and (apart["firmware"] or is_stale(case, reference, alone)):
                raise UserError("the reference and float64 differ too much to decide")
        except UserError:
            message = f"{message}\n  {remark}"
        else:
            job.note(remark)
            return exact, agreement
    if wrong:
        message = f"{message}\n  {describe_first_layer(job, alone)}"
    raise UserError(f"{message}\n  samples and outputs: {keep_outputs(job, alone, sides)}")


def is_stale(case: Case, reference: ReferenceOutputs, alone: Sequence[Sample]) -> bool:
    """Return whether the runtime has other outputs for these samples.

    A Python function that returns samples may read files that are not inputs of the build.
    """
    again = recipe_samples.run_reference(case.job, case.interface, alone)
    return count_differences(again.outputs, reference.outputs) > 0


def keep_outputs(job: Job, alone: Sequence[Sample], sides: Mapping[str, Outputs]) -> Path:
    """Write the samples and all outputs to a file that a failed stage keeps.

    Return the file's path.
    """
    path = job.cache / f"failed-run-{job.platform.name}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {name: np.stack([sample[name] for sample in alone]) for name in alone[0]}
    inputs = {f"input_{i}": array for i, array in enumerate(arrays.values())}
    write_file(path, ARRAYS, {**inputs, **stack_sides(sides)})
    return path


def stack_sides(sides: Mapping[str, Outputs]) -> dict[str, NDArray[Any]]:
    """Return each output as one array, ``<side>_0`` …. The first axis is the run."""
    return {
        f"{side}_{i}": np.stack(arrays)
        for side, results in sides.items()
        for i, arrays in enumerate(zip(*results, strict=True))
    }


def find_steps(job: Job) -> tuple[float, ...]:
    """Return the step size of each output, or () if the tolerance has no steps."""
    if not job.recipe.run.tolerance.steps:
        return ()
    if not artifacts.LOWERED_MODEL.path(job).is_file():
        return artifacts.NETWORK_VALUES.read(job).output_steps
    # Imported late with TVM, because few devices replace regions of the network.
    from firmwright.verify.network_values import find_output_steps

    return find_output_steps(artifacts.LOWERED_MODEL.read(job))
