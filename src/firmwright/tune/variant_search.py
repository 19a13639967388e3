"""Tries all variants of the layers, and keeps each layer's fastest variant.

A trial uses the next variant of every layer. Instructions are counted per layer. Therefore the
number of trials is the maximum number of variants per layer, not the number of combinations. All
trials share the results of the stages before the kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from firmwright.errors import UserError
from firmwright.pipeline.artifacts import LOWERED, PARTITION
from firmwright.pipeline.job import Job
from firmwright.pipeline.tuned_layers import Variants, describe_network, list_variants
from firmwright.recipe.recipe import tuned_path
from firmwright.recipe.tuned import TunedLayer, TunedNetwork, read_tuned, write_tuned
from firmwright.report.explanation import format_count

if TYPE_CHECKING:
    from firmwright.tune.variant_trials import TrialResult

DEFAULT, TOGETHER = 0, "together"
"""The trial of the default variants, and the trial of the fastest variants of all layers."""


def tune(job: Job) -> None:
    """Write the fastest variant of each layer into the tuned file of the recipe.

    Raises UserError if instructions cannot be counted, or if the default variants do not build.
    Other trials may fail. The variants of failed trials are ignored.
    """
    refuse_uncounted(job)
    read_all(job)  # raises the error of a damaged file before the first trial
    partition, module = PARTITION.read(job), LOWERED.read(job)
    # Imported late, because TVM is not needed if instructions cannot be counted.
    from firmwright.targets.custom_strategies import load_extensions

    with load_extensions(job.mix, job.recipe.extensions, job.recipe.layers) as mix:
        variants = list_variants(partition, module, mix)
    if not variants:
        job.note("no layer has several variants to choose from; tuning is not needed")
        return
    network = describe_network(job, partition)
    most = max(map(len, variants.values()))
    asked = job.recipe.tune.trials if job.recipe.tune else None
    count = min(most, asked or most)
    trials = [make_trial(network, variants, number) for number in range(count)]
    tried = collect(job, trials)
    tuned = replace(network, layers=choose_variants(variants, tried))
    default = tried[DEFAULT]
    together = try_together(job, tuned, default)
    changed = write_tuned(tuned_path(job.recipe.path), {**read_all(job), job.platform.name: tuned})
    used, before, unit = together.instructions, default.instructions, "instructions"
    if together.cycles is not None and default.cycles is not None:
        used, before, unit = together.cycles, default.cycles, "cycles"
    job.note(
        f"{format_count(len(variants), 'layer', 'layers')} in "
        f"{format_count(count, 'trial', 'trials')}: {used:,} {unit}, "
        f"{before:,} in the default variants"
    )
    job.note(f"{tuned_path(job.recipe.path)}: {'written' if changed else 'is as it was'}")


def refuse_uncounted(job: Job) -> None:
    """Raise UserError if a trial cannot count instructions."""
    if job.members:
        recipes = ", ".join(str(member.recipe.path) for member in job.members)
        problem = "a firmware of several networks cannot be tuned"
        raise UserError(
            f"{job.recipe.path}: {problem}; tune the recipes of its networks: {recipes}"
        )
    if not job.counts_instructions:
        message = (
            f"the emulator of '{job.platform.name}' does not count instructions, which tuning needs"
        )
        raise UserError(str(job.recipe.make_diagnostic(("platform",), message)))


def make_trial(network: TunedNetwork, variants: Variants, number: int) -> TunedNetwork:
    """Return each layer's variant with this number, or the default if there are fewer variants."""
    layers = {
        name: TunedLayer(of[number] if number < len(of) else of[DEFAULT], 0, of[DEFAULT], 0)
        for name, of in variants.items()
    }
    return replace(network, layers=layers)


def collect(job: Job, trials: Sequence[TunedNetwork]) -> dict[int, TrialResult]:
    """Map the numbers of the trials to their results. Failed trials are reported as notes.

    Raises UserError if the default variants failed.
    """
    from firmwright.tune.variant_trials import run_trials

    ended = {}
    for tried in run_trials(job, {str(number): trial for number, trial in enumerate(trials)}):
        ended[int(tried.trial)] = tried
        if tried.failure and tried is ended.get(DEFAULT):
            raise UserError(tried.failure)
    for number, tried in sorted(ended.items()):
        if tried.failure:
            job.note(f"trial {number} is not used: {tried.failure}")
            del ended[number]
        else:
            check_outputs(ended[DEFAULT], tried)
    return ended


def try_together(job: Job, tuned: TunedNetwork, default: TrialResult) -> TrialResult:
    """Return the result of the fastest variants of all layers.

    Raises UserError if the variants do not build together, although each variant was built in a
    trial.
    """
    if all(layer.variant == layer.default for layer in tuned.layers.values()):
        return default
    from firmwright.tune.variant_trials import run_trials

    (tried,) = run_trials(job, {TOGETHER: tuned})
    if tried.failure:
        raise UserError(
            f"the fastest variants do not build together: {tried.failure}\n"
            "if flash is too small, try `target: c -specialize=size`, which shares functions"
        )
    check_outputs(default, tried)
    return tried


def check_outputs(default: TrialResult, tried: TrialResult) -> None:
    """Raise UserError if the outputs of a trial and of the default variants differ."""
    other = [name for name, digest in default.outputs.items() if tried.outputs[name] != digest]
    if other:
        raise UserError(
            f"the outputs of trial {tried.trial} differ from the outputs of the default "
            f"variants ({', '.join(other)}): one variant computes wrong results; please "
            "report it with the recipe"
        )


def choose_variants(variants: Variants, tried: Mapping[int, TrialResult]) -> dict[str, TunedLayer]:
    """Return each layer's fastest variant, or the first of equal variants.

    Variants are compared by cycles if the platform has a cycle table, or else by instructions.
    """
    chosen = {}
    for name, of in variants.items():
        costs = [(find_cost(t, name), n) for n, t in tried.items() if n < len(of)]
        _, number = min(costs)
        fastest, default = tried[number], tried[DEFAULT]
        chosen[name] = TunedLayer(
            of[number],
            fastest.by_region[name],
            of[DEFAULT],
            default.by_region[name],
            fastest.cycles_by_region.get(name),
            default.cycles_by_region.get(name),
        )
    return chosen


def find_cost(tried: TrialResult, layer: str) -> int:
    """Return the cycles of a layer in a trial, or its instructions if cycles are unknown."""
    return tried.cycles_by_region.get(layer, tried.by_region[layer])


def read_all(job: Job) -> Mapping[str, TunedNetwork]:
    """Map the platforms in the recipe's tuned file to their networks.

    Raises DiagnosticError if the file is damaged.
    """
    path = tuned_path(job.recipe.path)
    return read_tuned(path).platforms if path.exists() else {}
