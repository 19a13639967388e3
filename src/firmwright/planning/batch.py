"""Rewrites a network and its interface for several samples per run."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import tvm
from tvm import relax

from firmwright.errors import UserError
from firmwright.ir.relax import list_result_types, main_bindings, static_shape
from firmwright.ir.tensors import ELEMENT_BYTES, LARGEST_TENSOR, BatchLayout, ModelInterface
from firmwright.partition.outline import name_outputs
from firmwright.planning.batch_axis import batch_module
from firmwright.planning.memory import MemoryUse


def largest_tensor(module: tvm.IRModule) -> MemoryUse:
    """Return the bytes of the largest result, and the maximum that the generated C can index."""
    kinds = [binding.var.ty for binding in main_bindings(module)]
    results = [r for kind in kinds for r in getattr(kind, "fields", [kind])]
    sizes = [
        prod(int(d) for d in r.shape) * ELEMENT_BYTES[str(r.dtype)]
        for r in results
        if isinstance(r, relax.TensorType)
        and str(r.dtype) in ELEMENT_BYTES  # otherwise the check rejects the operator
    ]
    return MemoryUse("largest tensor", max(sizes, default=0), LARGEST_TENSOR)


def batch_network(
    module: tvm.IRModule, interface: ModelInterface, size: int
) -> tuple[tvm.IRModule, ModelInterface, BatchLayout]:
    """Return the module and interface for ``size`` samples, and the layout of the samples in the
    outputs.

    Raises UserError for a network with states, because each of its samples depends on the one
    before.
    """
    if interface.states:
        names = ", ".join(f"'{state.tensor.name}'" for state in interface.states)
        raise UserError(
            f"a network with states ({names}) processes samples in order; remove `batch`"
        )
    module, axes = batch_module(name_outputs(module, interface), size)
    parameters = module["main"].params
    inputs = zip(interface.inputs, parameters, strict=True)
    outputs = zip(interface.outputs, list_result_types(module["main"]), strict=True)
    return (
        module,
        replace(
            interface,
            inputs=tuple(replace(t, shape=static_shape(p)) for t, p in inputs),
            outputs=tuple(replace(t, shape=tuple(int(d) for d in k.shape)) for t, k in outputs),
        ),
        BatchLayout(size, axes),
    )
