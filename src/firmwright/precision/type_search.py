"""Finds the type of each layer's weights within the limits of a recipe.

The errors of the types are measured per layer. The search selects the assignment with the minimum
sum of errors within a number of bytes. A trial builds the firmware of the assignment and confirms
its flash and its accuracy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import onnx

from firmwright.errors import DiagnosticError, UserError
from firmwright.pipeline import artifacts
from firmwright.pipeline.job import Job
from firmwright.pipeline.layer_precision import digest_weights
from firmwright.pipeline.recipe_samples import read_real_samples
from firmwright.pipeline.stage_options import require
from firmwright.precision.best_choices import (
    Choice,
    count_bytes,
    list_assignments,
    remove_inferior,
)
from firmwright.precision.sensitivity import Measured, Sensitivity
from firmwright.precision.type_trials import TrialResult, run_trial
from firmwright.progress import report
from firmwright.quantize.calibration import unpack_distributions
from firmwright.quantize.chosen_layers import choose_layers
from firmwright.quantize.weights import find_weights
from firmwright.recipe.precision import LayerPrecision, Precision, write_precision
from firmwright.recipe.quantize_keys import QuantizeOptions, SearchOptions
from firmwright.recipe.recipe import precision_path
from firmwright.tune import variant_trials

WIDE_TYPES = ("int16", "float32")
"""The types that are more accurate than int8. A search tries them only if the recipe states them.
"""
MOST_TRIALS = 8
"""The maximum number of assignments that a search builds."""
CLOSE_ENOUGH = 0.01
"""The search for the smallest firmware ends at an interval of this fraction of the maximum
number of bytes.
"""

Assignment = tuple[Choice, ...]


@dataclass
class Search:
    """A search for a job: the layers, and the result of each trial."""

    job: Job
    limits: SearchOptions
    network: str
    layers: Sequence[Measured]
    tried: dict[Assignment, TrialResult] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.choices = [remove_inferior(layer.choices) for layer in self.layers]

    def describe(self, assignment: Assignment, tried: TrialResult | None = None) -> Precision:
        layers = {
            layer.layer: LayerPrecision(choice.weights, choice.bytes, choice.error)
            for layer, choice in zip(self.layers, assignment, strict=True)
        }
        flash, loss = (tried.flash, tried.loss) if tried else (0, None)
        limits = self.limits
        return Precision(self.network, flash, layers, limits.flash, limits.accuracy, loss)

    def build(self, assignment: Assignment) -> TrialResult:
        """Return the result of the trial of an assignment. Raises UserError if the trial fails."""
        if assignment not in self.tried:
            report("trials", len(self.tried), MOST_TRIALS)
            tried = run_trial(self.job, self.describe(assignment))
            if tried.failure:
                raise UserError(f"a trial failed: {tried.failure}")
            self.tried[assignment] = tried
            lost = "" if tried.loss is None else f", {describe_loss(tried.loss)}"
            self.job.note(f"trial {len(self.tried)}: {tried.flash:,} bytes of flash{lost}")
        return self.tried[assignment]

    def is_accurate(self, tried: TrialResult) -> bool:
        limit = self.limits.accuracy
        return limit is None or (tried.loss is not None and tried.loss <= limit)

    def fits(self, tried: TrialResult) -> bool:
        return self.limits.flash is None or tried.flash <= self.limits.flash

    def find(self) -> Assignment:
        """Return the confirmed assignment. Raises DiagnosticError if no trial is confirmed."""
        assignment = (
            self.find_smallest() if self.limits.flash is None else self.find_most_accurate()
        )
        if assignment is None:
            raise DiagnosticError([self.job.recipe.make_diagnostic(*self.explain_failure())])
        return assignment

    def find_most_accurate(self) -> Assignment | None:
        """Return the first assignment within the limit of flash whose accuracy is confirmed.

        The first trial measures the flash of the code and of all other constants.
        """
        flash = require(self.limits.flash)
        others, smallest = 0, tuple(each[0] for each in self.choices)
        while len(self.tried) < MOST_TRIALS:
            # The code of smaller types can also be smaller, so the estimate may exclude these
            # types.
            assignment = next(self.list_new(flash - others), smallest)
            repeated = assignment in self.tried
            tried = self.build(assignment)
            if self.fits(tried) and self.is_accurate(tried):
                return assignment
            if repeated:
                return None
            others = max(others, tried.flash - count_bytes(assignment))
        return None

    def list_new(self, limit: int) -> Iterator[Assignment]:
        return (each for each in list_assignments(self.choices, limit) if each not in self.tried)

    def find_smallest(self) -> Assignment | None:
        """Return an accurate assignment with few bytes, found by bisection of the bytes.

        The bisection begins at the first accurate assignment in the order of the errors. The errors
        are estimates, so an assignment with a larger error may lose less accuracy.
        """
        low, most = (sum(each[end].bytes for each in self.choices) for end in (0, -1))
        # Rounded bytes exceed no limit that is twice the maximum, so no assignment is missing.
        ordered = islice(list_assignments(self.choices, 2 * most), MOST_TRIALS)
        best = next((each for each in ordered if self.is_accurate(self.build(each))), None)
        if best is None:
            return None
        high = count_bytes(best)
        enough = max(1, round(most * CLOSE_ENOUGH))
        while high - low > enough and len(self.tried) < MOST_TRIALS:
            limit = (low + high) // 2
            assignment = next(list_assignments(self.choices, limit), None)
            if assignment is not None and self.is_accurate(self.build(assignment)):
                best, high = assignment, count_bytes(assignment)
            else:
                low = limit
        return best

    def explain_failure(self) -> tuple[tuple[str, ...], str]:
        """Return the key of the limit that no trial met, and a message about the best trial."""
        fitting = [each for each in self.tried.items() if self.fits(each[1])]
        if not fitting:
            types, tried = min(self.tried.items(), key=lambda each: each[1].flash)
            message = (
                f"the smallest firmware that was built needs {tried.flash:,} bytes "
                f"({count_types(types)}); raise the limit, or add smaller `types`"
            )
            return ("quantize", "search", "flash"), message
        types, best = min(fitting, key=lambda each: each[1].loss or 0)
        message = (
            f"the best trial loses {best.loss:g} points with {best.flash:,} bytes of flash "
            f"({count_types(types)}); {self.advise_accuracy()}"
        )
        return ("quantize", "search", "accuracy"), message

    def advise_accuracy(self) -> str:
        wider = " or ".join(dtype for dtype in WIDE_TYPES if dtype not in self.limits.types)
        return f"raise a limit, or add {wider} to `types`" if wider else "raise a limit"


def count_types(assignment: Assignment) -> str:
    """Return the number of layers per type, such as ``int4: 3 layers, int8: 1``."""
    counts = Counter(choice.weights for choice in assignment)
    (first, number), *others = sorted(counts.items())
    layers = f"{first}: {number} layer{'s' if number > 1 else ''}"
    return ", ".join([layers, *(f"{dtype}: {count}" for dtype, count in others)])


def search(job: Job) -> None:
    """Write the types of all weights into the precision file of the recipe.

    Raises UserError if the recipe has no search, or if no types meet its limits.
    """
    options = refuse_unsearched(job)
    model = onnx.load(artifacts.PREPARED_MODEL.read(job))
    calibration = artifacts.CALIBRATION.read(job)
    distributions = unpack_distributions(calibration.tensors, artifacts.DISTRIBUTIONS.read(job))
    given = options.calibration
    interface = artifacts.MODEL_INTERFACE.read(job)
    assert given.inputs is not None
    samples = read_real_samples(job, interface.inputs, given.inputs, given.samples)
    compressed = job.recipe.compress is not None
    folder = job.cache / "sensitivity"
    measured = Sensitivity(model, distributions, options, samples, folder, compressed)
    layers = measured.measure(variant_trials.side_by_side)
    if not layers:
        job.note("no layer has weights whose type can be chosen; a search is not needed")
        return
    type_search = Search(
        job,
        require(options.search),
        digest_weights(find_weights(model, choose_layers(model, options))),
        layers,
    )
    assignment = type_search.find()
    path = precision_path(job.recipe.path)
    changed = write_precision(path, type_search.describe(assignment, type_search.build(assignment)))
    job.note(f"{path}: {'written' if changed else 'is as it was'}")


def refuse_unsearched(job: Job) -> QuantizeOptions:
    """Return the options of the quantization. Raises UserError if a search is impossible."""
    if job.members:
        recipes = ", ".join(str(member.recipe.path) for member in job.members)
        raise UserError(
            f"{job.recipe.path}: a firmware of several networks has no search; search for the "
            f"types of its networks: {recipes}"
        )
    options = job.recipe.quantize
    if options is None or options.search is None:
        raise UserError(
            f"{job.recipe.path}: the recipe states no limits; add `quantize: {{search: {{flash: "
            "128 KiB}}`, or `accuracy`"
        )
    if not job.has_firmware:
        raise UserError(f"{job.recipe.path}: the firmware cannot be built: {job.not_built}")
    return options


def describe_loss(loss: float) -> str:
    """Return a text such as ``2.5 points less accurate``. A negative loss is a gain."""
    return f"{abs(loss):g} points {'more' if loss < 0 else 'less'} accurate"
