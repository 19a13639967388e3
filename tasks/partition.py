"""partition: the module, cut into regions, each on one device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from firmwright.errors import UserError

from .jobs import Job
from .stage import Stage


def options(job: Job) -> Any:
    return [[d.name, sorted(d.options)] for d in job.recipe.target]


def run(job: Job, folder: Path) -> None:
    """Write ``partition.json`` and ``module.json`` (one Relax function a region)."""
    import tvm

    from firmwright.models import ModelInterface
    from firmwright.partition.outline import partition_module
    from firmwright.records import read_record, write_record
    from firmwright.targets import load_target
    from firmwright.transforms import CANONICAL

    model = job.folder("model")
    interface = read_record(model / "model.json", ModelInterface)
    module = tvm.ir.load_json((model / "module.json").read_text(encoding="utf-8"))
    try:
        for transform in CANONICAL:
            module = transform.apply(module)
        device = load_target(job.recipe.target[0].name)
        module, partition = partition_module(module, interface, device.name, device.reason)
    except UserError as error:
        raise UserError(f"{job.recipe.name}: {error}") from error
    (folder / "module.json").write_text(tvm.ir.save_json(module), encoding="utf-8")
    write_record(folder / "partition.json", partition)


STAGE = Stage(
    name="partition",
    sentence="cut the network into regions, each on one device",
    needs=("model",),
    code=("partition", "transforms", "targets", "records.py"),
    options=options,
    run=run,
)
