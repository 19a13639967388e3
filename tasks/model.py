"""model: the model file, fetched and imported to Relax in QDQ style."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from firmwright.pipeline.artifacts import MODEL_INTERFACE, MODEL_MODULE
from firmwright.pipeline.job import Job
from firmwright.pipeline.stage import Scope, Stage


def options(job: Job) -> Any:
    source = job.recipe.model
    shapes = {name: entry.shape for name, entry in job.recipe.inputs.items()}
    return {
        "url": source.url,
        "python": source.python,
        "sha256": source.sha256,
        "format": source.format,
        "inputs": shapes,
    }


def inputs(job: Job) -> list[Path]:
    return job.recipe.list_files("model")


def run(job: Job, folder: Path) -> None:
    """Write ``model.<format>``, ``model.json`` (the interface) and ``module.json`` (Relax)."""
    from firmwright.ir.records import write_record
    from firmwright.models import format_of

    source = job.recipe.model
    data, shown_as = get_model_data(job)
    importer = format_of(shown_as, source.format)
    shapes = {name: entry.shape for name, entry in job.recipe.inputs.items()}
    module, interface = importer.load().import_model(data, shown_as, shapes)

    import tvm

    (folder / f"model.{importer.name}").write_bytes(data)
    (folder / "module.json").write_text(tvm.ir.save_json(module), encoding="utf-8")
    write_record(folder / "model.json", interface)


def get_model_data(job: Job) -> tuple[bytes, str]:
    """Return the model as bytes of its format, and what to call it in messages."""
    from firmwright.data.fetch import fetch_model, read_model
    from firmwright.models.onnx.external_data import embed_external_data

    source = job.recipe.model
    if source.python is not None:
        from firmwright.models.relax.python_call import call_model

        return call_model(source.python, job.recipe.path.parent, inputs(job)), source.python
    if job.model_path is not None:
        shown_as = str(job.model_path)
        data = read_model(job.model_path, shown_as, source.sha256)
        return embed_external_data(data, job.model_path, shown_as), shown_as
    url = source.url or ""
    return fetch_model(url, source.sha256 or ""), PurePosixPath(urlsplit(url).path).name


STAGE = Stage(
    name="model",
    sentence="fetch the model and import it",
    run="firmwright.tasks.model:run",
    writes=(MODEL_INTERFACE, MODEL_MODULE),
    options=options,
    inputs=inputs,
    scope=Scope.MODEL,
)
