"""model: the model file, fetched and imported to Relax in QDQ style."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from firmwright.data.fetch import fetch_model, read_model
from firmwright.errors import DiagnosticError, did_you_mean
from firmwright.ir.tensors import ModelInterface
from firmwright.models import format_of
from firmwright.models.onnx.external_data import embed_external_data
from firmwright.models.relax.python_call import call_model
from firmwright.pipeline.artifacts import MODEL_INTERFACE, MODEL_MODULE
from firmwright.pipeline.command_line import find_place
from firmwright.pipeline.job import Job
from firmwright.transforms.integers.inputs import Limits, round_inputs


def run(job: Job, folder: Path) -> None:
    """Write ``model.<format>``, ``model.json`` (the interface) and ``module.json`` (Relax)."""
    source = job.recipe.model
    data, shown_as = get_model_data(job)
    importer = format_of(shown_as, source.format)
    inputs = job.recipe.inputs
    shapes = {name: entry.shape for name, entry in inputs.items() if entry.shape is not None}
    module, interface = importer.load().import_model(data, shown_as, shapes)
    module = round_inputs(module, find_integer_inputs(job, interface))
    (folder / f"model.{importer.name}").write_bytes(data)
    for remark in interface.remarks:
        job.note(remark)
    MODEL_MODULE.write(folder, module)
    MODEL_INTERFACE.write(folder, interface)


def find_integer_inputs(job: Job, interface: ModelInterface) -> list[Limits | None]:
    """Return the limits of the whole numbers that each input takes; None where nothing is stated.

    Raises DiagnosticError for an input that the model does not have, or has as integers.
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
            wrong[name] = f"the smallest number comes first; found {low}, then {high}"
    if wrong:
        places = [(("inputs", name, "integers"), text) for name, text in wrong.items()]
        raise DiagnosticError([find_place(job.recipe, *place) for place in places])
    return [stated.get(t.name) for t in interface.inputs]


def get_model_data(job: Job) -> tuple[bytes, str]:
    """Return the model as bytes of its format, and what to call it in messages."""
    source = job.recipe.model
    if source.python is not None:
        files = job.recipe.list_files("model")
        return call_model(source.python, job.recipe.path.parent, files), source.python
    if source.path is not None:
        path = job.recipe.resolve(source.path)
        data = read_model(path, str(path), source.sha256)
        return embed_external_data(data, path, str(path)), str(path)
    url = source.url or ""
    return fetch_model(url, source.sha256 or ""), PurePosixPath(urlsplit(url).path).name
