"""model: the model file, fetched and imported to Relax in QDQ style."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from firmwright.data.fetch import fetch_model, read_model
from firmwright.models import format_of
from firmwright.models.onnx.external_data import embed_external_data
from firmwright.models.relax.python_call import call_model
from firmwright.pipeline.artifacts import MODEL_INTERFACE, MODEL_MODULE
from firmwright.pipeline.job import Job


def run(job: Job, folder: Path) -> None:
    """Write ``model.<format>``, ``model.json`` (the interface) and ``module.json`` (Relax)."""
    source = job.recipe.model
    data, shown_as = get_model_data(job)
    importer = format_of(shown_as, source.format)
    shapes = {name: entry.shape for name, entry in job.recipe.inputs.items()}
    module, interface = importer.load().import_model(data, shown_as, shapes)
    (folder / f"model.{importer.name}").write_bytes(data)
    for remark in interface.remarks:
        job.note(remark)
    MODEL_MODULE.write(folder, module)
    MODEL_INTERFACE.write(folder, interface)


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
