"""tune: write the layers in all of their ways, count instructions, keep the fastest way of each.

A trial writes every layer in the next of its ways. Instructions are counted for each layer by
itself, so there are as many trials as the layer with the most ways has, not as many as there are
combinations. What comes before the kernels is shared by all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from firmwright.errors import UserError
from firmwright.pipeline.artifacts import LOWERED, PARTITION
from firmwright.pipeline.job import Job
from firmwright.pipeline.tuned_layers import Ways, describe_network, list_ways
from firmwright.recipe.recipe import tuned_path
from firmwright.recipe.tuned import TunedLayer, TunedNetwork, read_tuned, write_tuned
from firmwright.report.explanation import format_count

if TYPE_CHECKING:
    from firmwright.tune.trials import TrialResult

USUAL, TOGETHER = 0, "together"
"""The trial of the usual ways, and that of the fastest of all layers."""


def tune(job: Job) -> None:
    """Write the fastest way of each layer into the recipe's file of ways.

    Raises UserError if nothing counts instructions, or the network in its usual ways does not
    build. Other trials may fail: their ways are left out.
    """
    refuse_uncounted(job)
    read_all(job)  # a file that cannot be read is refused before anything is tried
    partition, module = PARTITION.read(job), LOWERED.read(job)
    # Imported late, with TVM: where nothing counts instructions nothing needs it.
    from firmwright.targets.custom_strategies import load_extensions

    with load_extensions(job.mix, job.recipe.extensions, job.recipe.layers) as mix:
        ways = list_ways(partition, module, mix)
    if not ways:
        job.note("no layer can be written in several ways, so there is nothing to tune")
        return
    network = describe_network(job, partition)
    count = count_trials(job, ways)
    trials = [make_trial(network, ways, number) for number in range(count)]
    tried = collect(job, trials)
    found = replace(network, layers=choose_ways(ways, tried))
    usual = tried[USUAL]
    together = try_together(job, found, usual)
    changed = update_file(job, found)
    job.note(
        f"{format_count(len(ways), 'layer', 'layers')} in "
        f"{format_count(count, 'trial', 'trials')}: {together.instructions:,} instructions, "
        f"{usual.instructions:,} in the usual ways"
    )
    job.note(f"{tuned_path(job.recipe.path)}: {'written' if changed else 'is as it was'}")


def refuse_uncounted(job: Job) -> None:
    """Raise UserError if a trial would count nothing."""
    if job.members:
        recipes = ", ".join(str(member.recipe.path) for member in job.members)
        raise UserError(f"{job.recipe.path}: tune the recipes of its networks: {recipes}")
    if not job.counts_instructions:
        message = f"nothing counts instructions on '{job.platform.name}', so nothing can be tuned"
        raise UserError(str(job.recipe.make_diagnostic(("platform",), message)))


def count_trials(job: Job, ways: Ways) -> int:
    """Return how many trials the layers need, at most as many as the recipe allows."""
    most = max(map(len, ways.values()))
    asked = job.recipe.tune.trials if job.recipe.tune else None
    return min(most, asked or most)


def make_trial(network: TunedNetwork, ways: Ways, number: int) -> TunedNetwork:
    """Return each layer in the way of this number, in the usual one if it has no more."""
    layers = {
        name: TunedLayer(of[number] if number < len(of) else of[USUAL], 0, of[USUAL], 0)
        for name, of in ways.items()
    }
    return replace(network, layers=layers)


def collect(job: Job, trials: Sequence[TunedNetwork]) -> dict[int, TrialResult]:
    """Return what came out of the trials by their numbers; a note says which failed.

    Raises UserError if the usual ways failed.
    """
    from firmwright.tune.trials import run_trials

    ended = {}
    for tried in run_trials(job, {str(number): trial for number, trial in enumerate(trials)}):
        ended[int(tried.trial)] = tried
        if tried.failure and tried is ended.get(USUAL):
            raise UserError(tried.failure)
    for number, tried in sorted(ended.items()):
        if tried.failure:
            job.note(f"trial {number} is left out: {tried.failure}")
            del ended[number]
        else:
            check_outputs(ended[USUAL], tried)
    return ended


def try_together(job: Job, found: TunedNetwork, usual: TrialResult) -> TrialResult:
    """Return what came out of the fastest ways of all layers.

    Raises UserError if they do not build together, though each was in a trial that did.
    """
    if all(layer.way == layer.usual for layer in found.layers.values()):
        return usual
    from firmwright.tune.trials import run_trials

    (tried,) = run_trials(job, {TOGETHER: found})
    if tried.failure:
        raise UserError(
            f"the fastest ways do not build together: {tried.failure}\n"
            "`target: c -specialize=size` shares functions, which take less flash"
        )
    check_outputs(usual, tried)
    return tried


def check_outputs(usual: TrialResult, tried: TrialResult) -> None:
    """Raise UserError if a trial has other outputs than the usual ways: all have to agree."""
    other = [name for name, digest in usual.outputs.items() if tried.outputs[name] != digest]
    if other:
        raise UserError(
            f"the ways of trial {tried.trial} give other outputs than the usual ones "
            f"({', '.join(other)}): a form is wrong here"
        )


def choose_ways(ways: Ways, tried: Mapping[int, TrialResult]) -> dict[str, TunedLayer]:
    """Return the way of each layer that takes the fewest instructions, the first of several."""
    chosen = {}
    for name, of in ways.items():
        counted = [(t.by_region[name], n) for n, t in tried.items() if n < len(of)]
        fewest, number = min(counted)
        usual = tried[USUAL].by_region[name]
        chosen[name] = TunedLayer(of[number], fewest, of[USUAL], usual)
    return chosen


def update_file(job: Job, found: TunedNetwork) -> bool:
    """Write what was found for the platform beside what the file has for others."""
    return write_tuned(tuned_path(job.recipe.path), {**read_all(job), job.platform.name: found})


def read_all(job: Job) -> Mapping[str, TunedNetwork]:
    """Return what the recipe's file of ways has, by platform; DiagnosticError for a damaged one."""
    path = tuned_path(job.recipe.path)
    return read_tuned(path).platforms if path.exists() else {}
