"""Compiles a network in memory, from its imported Relax module to the input of its C project.

Each step is a function. The stages of the pipeline write files between the steps.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy.typing as npt
import tvm
from tvm_ffi import StructuralKey

from firmwright.errors import UserError
from firmwright.ir.kernels import Kernel, Kernels, LoweredRegion, Parameter
from firmwright.ir.regions import Partition, Region
from firmwright.ir.tensors import ModelInterface
from firmwright.partition.by_cost import partition_by_cost
from firmwright.partition.layouts import add_storage
from firmwright.partition.outline import partition_module
from firmwright.partition.state_copies import copy_next_values
from firmwright.planning import make_plan
from firmwright.planning.batch import batch_network
from firmwright.progress import track
from firmwright.project.inter_core_calls import make_cores
from firmwright.project.network import Network
from firmwright.targets import Device, find_rewrites
from firmwright.transforms import canonicalize
from firmwright.transforms.optional import AFTER_CANONICAL, apply_transforms

Rewrite = Callable[[tvm.IRModule], tvm.IRModule]


def compile_network(
    module: tvm.IRModule,
    interface: ModelInterface,
    mix: Sequence[Device],
    batch: int | None = None,
) -> Network:
    """Rewrite, partition, lower and plan an imported module, for ``batch`` samples at once.

    Raises UserError if a step rejects the network. The function does not check whether the network
    fits a platform.
    """
    module = prepare_module(module, find_rewrites(mix))
    layout = None
    if batch is not None:
        module, interface, layout = batch_network(module, interface, batch)
    module, interface, partition = partition_network(module, interface, mix)
    kernels, weights = lower_regions(module, partition, mix)
    plan = make_plan(partition, kernels)
    cores = make_cores({device.name: device.target.core for device in mix})
    return Network(
        "network",
        "network",
        interface,
        partition,
        kernels,
        plan,
        weights,
        cores=cores,
        batch=layout,
    )


def prepare_module(
    module: tvm.IRModule, rewrites: Collection[str] = (), custom: Iterable[Rewrite] = ()
) -> tvm.IRModule:
    """Apply the optional rewrites with these names, then the custom and the canonical rewrites.

    The optional rewrites in :data:`AFTER_CANONICAL` are last.
    """
    module = apply_transforms(module, set(rewrites) - AFTER_CANONICAL)
    for rewrite in custom:
        module = rewrite(module)
    return apply_transforms(canonicalize(module), AFTER_CANONICAL.intersection(rewrites))


def partition_network(
    module: tvm.IRModule,
    interface: ModelInterface,
    mix: Sequence[Device],
    placement: str = "order",
) -> tuple[tvm.IRModule, ModelInterface, Partition]:
    """Cut a prepared module into regions. Return a module with one Relax function per region.

    The interface gets the storage of the network's inputs and outputs. ``placement`` is the
    recipe's key.
    """
    check_state_support(interface, mix)
    cut = partition_by_cost if placement == "cost" else partition_module
    module, partition = cut(module, interface, mix)
    module, partition = copy_next_values(module, partition, mix[-1].name)
    return module, add_storage(interface, partition), partition


def check_state_support(interface: ModelInterface, mix: Sequence[Device]) -> None:
    """Raise UserError if the network has states and a device cannot keep states."""
    for device in mix if interface.states else ():
        if not device.target.keeps_states:
            raise UserError(
                f"{device.name} cannot keep the state '{interface.states[0].tensor.name}' between "
                "runs; build with another `target`, such as c"
            )


def lower_regions(
    module: tvm.IRModule, partition: Partition, mix: Sequence[Device]
) -> tuple[Kernels, dict[str, npt.NDArray[Any]]]:
    """Lower every region that computes, on its device. Return the kernels and the weights.

    Raises UserError with every operator that cannot be compiled.
    """
    return share_weights(lower_each(module, partition, mix))


def lower_each(
    module: tvm.IRModule,
    partition: Partition,
    mix: Sequence[Device],
    kept: Mapping[str, LoweredRegion] = MappingProxyType({}),
) -> list[tuple[str, LoweredRegion]]:
    """Return the device and the lowered form of every region that computes.

    ``kept`` maps the names of regions that are already lowered to their lowered forms. Raises
    UserError with every operator that cannot be compiled.
    """
    devices = {device.name: device for device in mix}
    lowered, refused = [], []
    known: dict[tuple[str, str | None, StructuralKey], tuple[Region, LoweredRegion]] = {}
    for region in track(partition.regions, "regions"):
        if region.view:
            continue
        if region.name in kept:
            lowered.append((region.device, kept[region.name]))
            continue
        try:
            device = devices[region.lowered_by or region.device]
            variant = device.context.variants.get(region.name)
            key = region.device, variant, StructuralKey(module[region.name])  # type: ignore[call-arg]
            if key in known:
                made = retarget(*known[key], region)
            else:
                made = device.lower(region, module)
                if is_reusable(device, made.kernel):
                    known[key] = region, made
            lowered.append((region.device, made))
        except UserError as error:
            refused.append(f"  {error}")
    if refused:
        raise UserError("\n".join(["operators that cannot be compiled:", *dict.fromkeys(refused)]))
    return lowered


def is_reusable(device: Device, kernel: Kernel) -> bool:
    """Return whether a kernel fits every region with equal operators and constants.

    Fallback devices use only operators and constants. Other devices may use other properties of the
    region. A kernel with a list of float32 operators is not reusable, because the list contains
    names of its region.
    """
    texts = (kernel.body, kernel.definitions or "", *(file.text for file in kernel.files))
    named = kernel.float_operators or any(kernel.region in text for text in texts)
    return device.target.is_fallback and not named


def retarget(first: Region, made: LoweredRegion, region: Region) -> LoweredRegion:
    """Convert a lowered region to another region with equal operators and constants."""
    kernel = made.kernel
    ports = (*first.inputs, *first.outputs), (*region.inputs, *region.outputs)
    tensors = dict(zip(*ports, strict=True))

    def rename(parameters: Sequence[Parameter]) -> tuple[Parameter, ...]:
        renamed = {p.tensor: p.tensor.replace(first.name, region.name, 1) for p in parameters}
        return tuple(replace(p, tensor=(renamed | tensors)[p.tensor]) for p in parameters)

    return LoweredRegion(
        replace(
            kernel,
            region=region.name,
            inputs=rename(kernel.inputs),
            weights=rename(kernel.weights),
            outputs=rename(kernel.outputs),
            scratch=rename(kernel.scratch),
        ),
        {n.replace(first.name, region.name, 1): array for n, array in made.weights.items()},
    )


def share_weights(
    lowered: Iterable[tuple[str, LoweredRegion]],
) -> tuple[Kernels, dict[str, npt.NDArray[Any]]]:
    """Return the kernels of lowered regions, and a mapping of names to their weights.

    Equal arrays of a device share one name. Therefore all steps of a recurrent layer share its
    weights.
    """
    kernels, weights = [], {}
    names: dict[tuple[str, str, bytes], str] = {}
    for device, region in lowered:
        stored = {}
        for name, array in region.weights.items():
            digest = hashlib.sha256(array.tobytes()).digest()
            stored[name] = names.setdefault((device, array.dtype.str, digest), name)
            weights[stored[name]] = array
        parameters = (replace(p, tensor=stored[p.tensor]) for p in region.kernel.weights)
        kernels.append(replace(region.kernel, weights=tuple(parameters)))
    return Kernels(tuple(kernels)), weights
