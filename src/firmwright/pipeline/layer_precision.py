"""Reads and checks the weight types that a search found.

A file for another network or other limits is rejected, because its result is not valid.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import onnx

from firmwright.documents.document import Document
from firmwright.errors import Diagnostic, DiagnosticError
from firmwright.quantize.chosen_layers import choose_layers
from firmwright.quantize.weights import Weight, find_weights
from firmwright.recipe.precision import Precision, read_precision
from firmwright.recipe.quantize_keys import KeepFloat, LayerTypes, QuantizeOptions, SearchOptions

from .job import Job
from .stage_options import require

FLOAT = "float32"


def digest_weights(weights: Iterable[Weight]) -> str:
    """Return the SHA-256 of the names, types and values of a float network's weights."""
    digest = hashlib.sha256()
    for weight in weights:
        facts = (weight.name, weight.input, weight.dtype, weight.values.shape)
        digest.update(repr(facts).encode() + weight.values.tobytes())
    return digest.hexdigest()


def apply_precision(job: Job, model: onnx.ModelProto) -> QuantizeOptions:
    """Return the recipe's options with the types of the job's precision file.

    Raises DiagnosticError if the file belongs to another network, or if its limits differ.
    """
    options = require(job.recipe.quantize)
    for path in job.precision_files:
        document, precision = read_precision(path)
        wrong = [*find_differences(job, document, precision, options.search, model)]
        if wrong:
            raise DiagnosticError(wrong)
        return use_precision(options, precision)
    if options.search is not None:
        job.note(f"quantize.search: no search has run; run `{job.name_command('search')}`")
    return options


def use_precision(options: QuantizeOptions, precision: Precision) -> QuantizeOptions:
    types = {name: layer.weights for name, layer in precision.layers.items()}
    kept = tuple(name for name, dtype in types.items() if dtype == FLOAT)
    entries = [LayerTypes(name, weights=dtype) for name, dtype in types.items() if dtype != FLOAT]
    return msgspec.structs.replace(
        options,
        layers=(*options.layers, *entries),
        keep_float=KeepFloat((*options.keep_float.layers, *kept), options.keep_float.operators),
    )


def find_differences(
    job: Job,
    document: Document,
    precision: Precision,
    search: SearchOptions | None,
    model: onnx.ModelProto,
) -> Iterator[Diagnostic]:
    """Yield the differences of a precision file from the recipe and its network.

    The layers of trials have types of the search, and the names of the network's layers.
    """
    hint = f"search again with `{job.name_command('search')}`, or remove the file"
    options = require(job.recipe.quantize)
    weights = [*find_weights(model, choose_layers(model, options))]
    here = digest_weights(weights)
    if precision.network != here:
        message = f"searched for another network; the network of this recipe is {here}"
        yield document.make_diagnostic(("network",), f"{message}; {hint}")
    for key in ("flash", "accuracy") if search else ():
        there, asked = getattr(precision, key), getattr(search, key)
        if there != asked:
            message = f"searched for {there or 'no limit'}; the recipe states {asked or 'no limit'}"
            yield document.make_diagnostic((key,), f"{message}; {hint}")
    constants = {weight.name for weight in weights}
    names = {node.name for node in model.graph.node if constants.intersection(node.input)}
    for name, layer in precision.layers.items():
        if name not in names:
            message = f"the network has no layer {name!r} whose weights have a type"
            yield document.make_diagnostic(("layers", name), f"{message}; {hint}")
        elif search and layer.weights not in search.types:
            message = f"the recipe's search tries only {', '.join(search.types)}"
            yield document.make_diagnostic(("layers", name, "weights"), f"{message}; {hint}")


def make_trial_job(job: Job, folder: Path) -> Job:
    """Return the job of a trial, whose quantized network and later results are in ``folder``.

    The job has no thresholds, because they would end the trial before it is compared with other
    trials.
    """
    data = dict(job.recipe.data)
    if data.get("evaluate"):
        boxes = data["evaluate"]["thresholds"].get("boxes", {})
        iou = {"boxes": {"iou": boxes["iou"]}} if boxes else {}
        data["evaluate"] = {**data["evaluate"], "thresholds": iou}
    recipe = job.recipe.replace_data(data)
    return replace(job, recipe=recipe, origin=job, precision=folder / TRIAL_FILE, outdir=folder)


TRIAL_FILE = "types.precision"
"""The precision file that the build reads in the folder of a trial."""
