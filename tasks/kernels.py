"""kernels: every region as a C function and its constants."""

from __future__ import annotations

from pathlib import Path

from firmwright.errors import UserError

from .jobs import Job
from .stage import NETWORK, Stage


def run(job: Job, folder: Path) -> None:
    """Write ``kernels.json`` and ``weights.npz``."""
    import tvm

    from firmwright.codegen.kernel import Kernels
    from firmwright.models.interface import ModelInterface
    from firmwright.partition import Partition
    from firmwright.records import read_record, write_arrays, write_record
    from firmwright.targets import load_target

    source = job.folder("partition")
    partition = read_record(source / "partition.json", Partition)
    module = tvm.ir.load_json((source / "module.json").read_text(encoding="utf-8"))
    interface = read_record(job.folder(job.network) / "model.json", ModelInterface)
    rounding = "tflite" if interface.format == "tflite" else "onnx"
    lowered, refused = [], []
    for region in partition.regions:
        if region.view:
            continue
        try:
            lowered.append(load_target(region.device).lower(region, module, rounding))
        except UserError as error:
            refused.append(f"  {error}")
    if refused:
        raise UserError("\n".join(["operators that cannot be compiled:", *refused]))
    weights = {name: array for region in lowered for name, array in region.weights.items()}
    write_arrays(folder / "weights.npz", weights)
    write_record(folder / "kernels.json", Kernels(tuple(region.kernel for region in lowered)))


STAGE = Stage(
    name="kernels",
    sentence="lower every region to C",
    needs=(NETWORK, "partition"),
    code=("codegen", "targets", "transforms", "records.py"),
    options=lambda _: None,
    run=run,
)
