"""Checks the tuned file, and selects its variant of each layer, or the default.

A file for another network is rejected, because its variants may be slow in this network.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from firmwright.errors import Diagnostic, DiagnosticError
from firmwright.ir.regions import Partition, Region
from firmwright.recipe.tuned import TunedFile, TunedLayer, TunedNetwork, read_tuned
from firmwright.targets import Device

from .job import Job

if TYPE_CHECKING:
    from firmwright.ir.kernels import Kernels
    from firmwright.ir.nodes import IRModule

Variants = Mapping[str, tuple[str, ...]]
"""A mapping from regions with several variants to the variants, beginning with the default."""


def list_variants(partition: Partition, module: IRModule, mix: Sequence[Device]) -> Variants:
    """Return the variants of each layer that has more than one variant."""
    devices = {device.name: device for device in mix}
    all_variants = {
        region.name: tuple(find_device(region, devices).list_variants(region, module))
        for region in partition.regions
        if not region.view
    }
    return {name: variants for name, variants in all_variants.items() if len(variants) > 1}


def find_device(region: Region, devices: Mapping[str, Device]) -> Device:
    return devices[region.lowered_by or region.device]


def digest_network(partition: Partition) -> str:
    """Return the SHA-256 of a network's layers and tensors, without weights and locations."""
    facts = {
        "regions": [
            [r.name, r.device, r.operators, r.inputs, r.outputs] for r in partition.regions
        ],
        "tensors": [[t.name, t.dtype, t.shape] for t in partition.tensors],
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def describe_network(job: Job, partition: Partition) -> TunedNetwork:
    """Return the values, except layers, that a tuned file for this network must contain."""
    return TunedNetwork(job.build.toolchain.name, job.target, digest_network(partition), {})


def read_network(job: Job) -> tuple[TunedFile, TunedNetwork] | None:
    """Return the tuned file and its part for the platform, or None if there is no such part."""
    for path in job.tuned_files:
        file = read_tuned(path)
        if job.platform.name in file.platforms:
            return file, file.platforms[job.platform.name]
    return None


def is_untuned(job: Job) -> bool:
    return job.recipe.tune is not None and job.counts_instructions and read_network(job) is None


def tune_mix(
    job: Job, partition: Partition, module: IRModule, mix: Sequence[Device]
) -> tuple[Device, ...]:
    """Return the devices with the variants of the job's tuned file.

    Raises DiagnosticError if the file belongs to another network.
    """
    read = read_network(job)
    if read is None:
        return tuple(mix)
    file, tuned = read
    wrong = list(find_differences(job, file, tuned, describe_network(job, partition)))
    wrong = wrong or list(
        find_wrong_variants(job, file, tuned, list_variants(partition, module, mix))
    )
    if wrong:
        raise DiagnosticError(wrong)
    variants = {name: layer.variant for name, layer in tuned.layers.items()}
    return tuple(replace(d, context=replace(d.context, variants=variants)) for d in mix)


def list_tuned_variants(mix: Sequence[Device]) -> dict[str, str]:
    return {name: variant for device in mix for name, variant in device.context.variants.items()}


def find_differences(
    job: Job, file: TunedFile, tuned: TunedNetwork, wanted: TunedNetwork
) -> Iterator[Diagnostic]:
    """Yield the differences between the tuned file's network and this network."""
    for key, value in asdict(replace(tuned, layers={})).items():
        here = getattr(wanted, key)
        if key == "network" and value != here:
            yield refuse(
                job, file, (key,), f"measured for a different network; this network is {here}"
            )
        elif value != here:
            yield refuse(job, file, (key,), f"measured for '{value}'; this build has '{here}'")


def find_wrong_variants(
    job: Job, file: TunedFile, tuned: TunedNetwork, known: Variants
) -> Iterator[Diagnostic]:
    """Yield the unknown layers, the unknown variants and the missing layers of a tuned file."""
    for name, layer in tuned.layers.items():
        if name not in known:
            message = "not a layer with several variants"
            yield refuse(job, file, ("layers", name), message, key=True)
        elif layer.variant not in known[name]:
            listed = ", ".join(known[name])
            variant_key = ("layers", name, "variant")
            yield refuse(job, file, variant_key, f"not a variant of this layer; expected {listed}")
    for name in known.keys() - tuned.layers.keys():
        yield refuse(job, file, ("layers",), f"the layer '{name}' is missing", key=True)


def refuse(
    job: Job, file: TunedFile, keys: tuple[str, ...], message: str, key: bool = False
) -> Diagnostic:
    """Return a message at a value, or at its key, in the platform's part of a file."""
    pointer = ("platforms", job.platform.name, *keys)
    hint = f"search again with `{job.name_command('tune')}`, or remove the file"
    return file.document.make_diagnostic(pointer, f"{message}; {hint}", key)


def describe_tuning(job: Job) -> dict[str, str]:
    """Return a sentence for each tuned layer that compares the variant with the default."""
    read = read_network(job)
    if read is None:
        return {}
    return {name: describe_layer(layer) for name, layer in read[1].layers.items()}


def describe_layer(layer: TunedLayer) -> str:
    used, default, unit = layer.instructions, layer.default_instructions, "instructions"
    if layer.cycles is not None and layer.default_cycles is not None:
        used, default, unit = layer.cycles, layer.default_cycles, "cycles"
    return f"Tuned: {layer.variant}, {used:,} {unit}; default: {layer.default}, {default:,}."


def add_tuning_notes(job: Job, kernels: Kernels) -> Kernels:
    """Return the kernels with a note for each tuned layer that explains the layer's variant."""
    notes = describe_tuning(job)
    return replace(
        kernels,
        kernels=tuple(
            replace(k, note=" ".join(filter(None, (k.note, notes[k.region]))))
            if k.region in notes
            else k
            for k in kernels.kernels
        ),
    )
