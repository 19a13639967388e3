"""How often an inference reads and writes the tensors and constants of a network, estimated."""

from __future__ import annotations

from collections import Counter

from firmwright.ir.kernels import Kernel, Kernels, Parameter
from firmwright.ir.regions import Partition


def count_accesses(partition: Partition, kernels: Kernels) -> Counter[str]:
    """Return the bytes that are read and written of each tensor, scratch buffer and array.

    A multiply-accumulate reads an element of its layer's inputs and one of its weights, which are
    the largest of its arrays. All else is read, or written, once for each element of itself or of
    the results, whichever are more. What a kernel keeps in registers is not known here.
    """
    macs = {region.name: region.macs for region in partition.regions}
    roots = partition.view_roots
    found = Counter[str]()
    for kernel in kernels.kernels:
        for parameter, times in list_uses(kernel, macs[kernel.region]):
            name = roots.get(parameter.tensor, parameter.tensor)
            found[name] += times * parameter.bytes // max(parameter.elements, 1)
    return found


def list_uses(kernel: Kernel, macs: int) -> list[tuple[Parameter, int]]:
    """Return how many elements a kernel reads or writes of each of its parameters."""
    made = sum(p.elements for p in kernel.outputs)
    given = sum(p.elements for p in kernel.inputs)
    weights = max(kernel.weights, key=lambda p: p.elements, default=None)
    return [
        *((p, max(p.elements, macs * p.elements // max(given, 1))) for p in kernel.inputs),
        *((p, max(p.elements, made, macs if p is weights else 0)) for p in kernel.weights),
        *((p, p.elements) for p in kernel.outputs),
        *((p, p.elements + max(p.elements, macs)) for p in kernel.scratch),
    ]
