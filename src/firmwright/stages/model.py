"""Runs the stage ``model``: fetches the model file and imports it to Relax in QDQ style."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

import msgspec

from firmwright.bundle.model_signature import read_model_key, verify_model
from firmwright.custom.reads import record_reads
from firmwright.data.fetch import fetch_model, read_model
from firmwright.errors import DiagnosticError, did_you_mean
from firmwright.ir.tensors import ModelInterface, ModelSignature
from firmwright.models import format_of
from firmwright.models.c_names import find_unfit_names
from firmwright.models.onnx.external_data import embed_external_data, external_files
from firmwright.models.onnx.fixed_inputs import fix_inputs as fix_model_inputs
from firmwright.models.relax.python_call import call_model
from firmwright.models.state_pairs import StateError, pair_states
from firmwright.pipeline.artifacts import (
    MODEL_INTERFACE,
    MODEL_MODULE,
    MODEL_SIGNATURE,
    NETWORK_VALUES,
)
from firmwright.pipeline.build_inputs import to_absolute
from firmwright.pipeline.job import Job
from firmwright.pipeline.python_operators import load_custom_operators, refuse_unused
from firmwright.recipe.recipe import error_at_key
from firmwright.transforms.integers.stated_ranges import Limits, round_inputs
from firmwright.verify.network_values import describe_values


def run(job: Job, folder: Path) -> None:
    """Write ``model.<format>``, ``model.json``, ``module.json`` and ``values.json``.

    ``model.json`` is the interface, and ``module.json`` is Relax. ``values.json`` has the model's
    statements about the values of inputs and outputs.
    """
    source = job.recipe.model
    data, shown_as, signature = get_model_data(job)
    importer = format_of(shown_as, source.format)
    inputs = job.recipe.inputs
    if source.signature_name is not None:
        with error_at_key(job.recipe, ("model", "signature_name")):
            data = importer.select_network(data, shown_as, source.signature_name)
    data = fix_inputs(job, data, shown_as, importer.name)
    shapes = {name: entry.shape for name, entry in inputs.items() if entry.shape is not None}
    with load_custom_operators(job.recipe):
        module, interface = importer.load().import_model(data, shown_as, shapes)
    refuse_unused(job.recipe, {operator.kind for operator in interface.operators})
    try:
        module, interface = pair_states(module, interface, source.state)
    except StateError as error:
        diagnostics = [job.recipe.make_diagnostic(("model", "state", error.state), str(error))]
        raise DiagnosticError(diagnostics) from None
    interface = set_c_names(job, interface)
    module = round_inputs(module, find_integer_inputs(job, interface))
    (folder / f"model.{importer.name}").write_bytes(data)
    for remark in interface.remarks:
        job.note(remark)
    if interface.states:
        size = sum(state.tensor.bytes for state in interface.states)
        names = ", ".join(state.tensor.name for state in interface.states)
        job.note(f"keeps {size:,} bytes between runs: {names}")
    MODEL_MODULE.write(folder, module)
    MODEL_INTERFACE.write(folder, interface)
    NETWORK_VALUES.write(folder, describe_values(module, interface))
    if signature:
        MODEL_SIGNATURE.write(folder, signature)


def fix_inputs(job: Job, data: bytes, name: str, format_name: str) -> bytes:
    """Return the model with the inputs and dimensions that the recipe fixes.

    Raises DiagnosticError if the format is not ONNX. Raises UserError if the values do not fit the
    model.
    """
    recipe = job.recipe
    values = {n: e.value for n, e in recipe.inputs.items() if e.value is not None}
    if not values and not recipe.dimensions:
        return data
    if format_name != "onnx":
        keys: list[tuple[str, ...]] = [("inputs", name, "value") for name in values]
        keys += [("dimensions", name) for name in recipe.dimensions]
        text = f"the model is {format_name}; only ONNX models support this key: state `shape`"
        raise DiagnosticError([recipe.make_diagnostic(key, text) for key in keys])
    return fix_model_inputs(data, name, values, recipe.dimensions)


def set_c_names(job: Job, interface: ModelInterface) -> ModelInterface:
    """Return the interface with the C names that the recipe states.

    Raises DiagnosticError if two tensors have one C name, or if the C function does not have the
    tensor of a C name.
    """
    recipe = job.recipe
    inputs = {n: e.c_name for n, e in recipe.inputs.items() if e.c_name is not msgspec.UNSET}
    outputs = {name: entry.c_name for name, entry in recipe.outputs.items()}
    states = recipe.model.state
    fixed = {name for name, entry in recipe.inputs.items() if entry.value is not None}
    diagnostics = [
        recipe.make_diagnostic((f"{what}s", name, "c_name"), reason)
        for what, tensors, chosen, absent in (
            ("input", interface.inputs, inputs, fixed.union(states)),
            ("output", interface.outputs, outputs, {*states.values()}),
        )
        for name, reason in find_unfit_names(what, tensors, chosen, absent)
    ]
    if diagnostics:
        raise DiagnosticError(diagnostics)
    return replace(interface, input_c_names=inputs, output_c_names=outputs)


def find_integer_inputs(job: Job, interface: ModelInterface) -> list[Limits | None]:
    """Return the stated limits of the whole numbers of each input, or None.

    Raises DiagnosticError if an input is not in the model or has an integer type.
    """
    dtypes = {t.name: t.dtype for t in interface.inputs}
    stated = {n: e.integers for n, e in job.recipe.inputs.items() if e.integers is not None}
    wrong = {}
    for name, (low, high) in stated.items():
        if name not in dtypes:
            wrong[name] = f"the model has no input '{name}'{did_you_mean(name, dtypes)}"
        elif "float" not in dtypes[name]:
            wrong[name] = f"'{name}' is {dtypes[name]}; `integers` is for inputs of floats"
        elif low >= high:
            wrong[name] = f"expected the smaller number first; found {low}, then {high}"
    if wrong:
        diagnostics = [(("inputs", name, "integers"), text) for name, text in wrong.items()]
        raise DiagnosticError([job.recipe.make_diagnostic(*where) for where in diagnostics])
    return [stated.get(t.name) for t in interface.parameters]


def get_model_data(job: Job) -> tuple[bytes, str, ModelSignature | None]:
    """Return the bytes of the model, its name in messages, and its signature.

    A signature that the recipe requires is checked before the model is parsed.
    """
    source = job.recipe.model
    if source.python is not None:
        files = job.recipe.list_files("model")
        with record_reads() as opened:
            data = call_model(source.python, job.recipe.path.parent, files)
        note_unread_files(job, opened)
        return data, source.python, None
    if source.path is not None:
        path = job.recipe.resolve(source.path)
        data = read_model(path, str(path), source.sha256)
        signature = check_signature(job, to_absolute(path), data, external_files(path))
        return embed_external_data(data, path, str(path)), str(path), signature
    data = fetch_model(source.url or "", source.sha256 or "")
    name = PurePosixPath(urlsplit(source.url or "").path).name
    return data, name, check_signature(job, None, data, ())


def note_unread_files(job: Job, opened: Collection[str]) -> None:
    """Note the items of ``model.files`` of which the model's function opened no file."""
    read = {*map(os.path.realpath, opened)}
    for reference in job.recipe.references:
        if reference.pointer[:2] == ("model", "files"):
            listed = reference.list_files(job.recipe.path.parent)
            if read.isdisjoint(map(os.path.realpath, listed)):
                job.note(f"model.files: no effect: the function opened no '{reference.value}'")


def check_signature(
    job: Job, path: Path | None, data: bytes, others: Iterable[Path]
) -> ModelSignature | None:
    """Return the checked signature of :func:`verify_model`, or None if no signature is required."""
    recipe, source = job.recipe, job.recipe.model
    if source.signature is None or source.key is None:
        return None
    with error_at_key(recipe, ("model", "key")):
        key = read_model_key(recipe.resolve(source.key))
    with error_at_key(recipe, ("model", "signature")):
        signature = recipe.resolve(source.signature)
        return verify_model(signature, key, path, data, map(to_absolute, others))
