"""The ways in which a network's layers are written: those of its file, checked, or the usual ones.

A file that belongs to another network is refused: its ways may be slow here, and nobody would
know.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from firmwright.errors import Diagnostic, DiagnosticError
from firmwright.ir.regions import Partition, Region
from firmwright.recipe.tuned import TunedFile, TunedNetwork, read_tuned
from firmwright.targets import Device

from .job import Job

if TYPE_CHECKING:
    from firmwright.ir.kernels import Kernels
    from firmwright.ir.nodes import IRModule

Ways = Mapping[str, tuple[str, ...]]
"""The ways of each layer that has several, first the usual one, by the region's name."""


def list_ways(partition: Partition, module: IRModule, mix: Sequence[Device]) -> Ways:
    """Return the ways of the layers that can be written in several."""
    devices = {device.name: device for device in mix}
    found = {
        region.name: tuple(find_device(region, devices).list_ways(region, module))
        for region in partition.regions
        if not region.view
    }
    return {name: ways for name, ways in found.items() if len(ways) > 1}


def find_device(region: Region, devices: Mapping[str, Device]) -> Device:
    return devices[region.lowered_by or region.device]


def digest_network(partition: Partition) -> str:
    """Return the SHA-256 of a network's layers and tensors, without weights and places."""
    told = {
        "regions": [
            [r.name, r.device, r.operators, r.inputs, r.outputs] for r in partition.regions
        ],
        "tensors": [[t.name, t.dtype, t.shape] for t in partition.tensors],
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def describe_network(job: Job, partition: Partition) -> TunedNetwork:
    """Return what a file of ways has to say to belong to this network, without any layers."""
    return TunedNetwork(job.build.toolchain.name, job.target, digest_network(partition), {})


def read_network(job: Job) -> tuple[TunedFile, TunedNetwork] | None:
    """Return the file of ways and what it has for the platform; None where it has nothing."""
    for path in job.tuned_files:
        file = read_tuned(path)
        if job.platform.name in file.platforms:
            return file, file.platforms[job.platform.name]
    return None


def is_untuned(job: Job) -> bool:
    """Tell whether a recipe wants tuned layers, and nothing was found for its platform yet."""
    return job.recipe.tune is not None and job.counts_instructions and read_network(job) is None


def tune_mix(
    job: Job, partition: Partition, module: IRModule, mix: Sequence[Device]
) -> tuple[Device, ...]:
    """Return the devices, which know the ways of the job's file.

    Raises DiagnosticError where the file belongs to another network.
    """
    read = read_network(job)
    if read is None:
        return tuple(mix)
    file, tuned = read
    wrong = list(find_differences(job, file, tuned, describe_network(job, partition)))
    wrong = wrong or list(find_wrong_ways(job, file, tuned, list_ways(partition, module, mix)))
    if wrong:
        raise DiagnosticError(wrong)
    ways = {name: layer.way for name, layer in tuned.layers.items()}
    return tuple(replace(d, context=replace(d.context, ways=ways)) for d in mix)


def list_found_ways(mix: Sequence[Device]) -> dict[str, str]:
    """Return the ways of the layers that were tuned, by name."""
    return {name: way for device in mix for name, way in device.context.ways.items()}


def find_differences(
    job: Job, file: TunedFile, tuned: TunedNetwork, wanted: TunedNetwork
) -> Iterator[Diagnostic]:
    """Yield what a file says of its network that is otherwise in this one."""
    for key, found in asdict(replace(tuned, layers={})).items():
        here = getattr(wanted, key)
        if key == "network" and found != here:
            yield refuse(job, file, (key,), f"the ways of another network; this one is {here}")
        elif found != here:
            yield refuse(job, file, (key,), f"the ways for '{found}'; this build has '{here}'")


def find_wrong_ways(
    job: Job, file: TunedFile, tuned: TunedNetwork, known: Ways
) -> Iterator[Diagnostic]:
    """Yield the layers of a file that are missing or not known here, and ways that they lack."""
    for name, layer in tuned.layers.items():
        if name not in known:
            told = "no layer here that has several ways"
            yield refuse(job, file, ("layers", name), told, key=True)
        elif layer.way not in known[name]:
            listed = ", ".join(known[name])
            place = ("layers", name, "way")
            yield refuse(job, file, place, f"no way here to write this layer; ways: {listed}")
    for name in known.keys() - tuned.layers.keys():
        yield refuse(job, file, ("layers",), f"the layer '{name}' is missing", key=True)


def refuse(
    job: Job, file: TunedFile, keys: tuple[str, ...], message: str, key: bool = False
) -> Diagnostic:
    """Return a message at a value of the platform's part of a file, or at its key."""
    pointer = ("platforms", job.platform.name, *keys)
    hint = f"`{tune_command(job)}` searches anew, or remove the file"
    return file.document.make_diagnostic(pointer, f"{message}; {hint}", key)


def tune_command(job: Job) -> str:
    """Return the command that tunes what was asked for, also on the command line."""
    overrides = [f"{name}={value}" for name, value in job.words.items()]
    return shlex.join(["firmwright", "tune", str(job.recipe.layers), *overrides])


def describe_tuning(job: Job) -> dict[str, str]:
    """Return a sentence for each layer of the job's file: how it compares with the usual way."""
    read = read_network(job)
    if read is None:
        return {}
    return {
        name: f"Tuned: {layer.way}, {layer.instructions:,} instructions; usual: {layer.usual}, "
        f"{layer.usual_instructions:,}."
        for name, layer in read[1].layers.items()
    }


def tell_ways(job: Job, kernels: Kernels) -> Kernels:
    """Return the kernels, whose notes say of tuned layers why they are written as they are."""
    told = describe_tuning(job)
    return replace(
        kernels,
        kernels=tuple(
            replace(k, note=" ".join(filter(None, (k.note, told[k.region]))))
            if k.region in told
            else k
            for k in kernels.kernels
        ),
    )
