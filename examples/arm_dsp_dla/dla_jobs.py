"""The operators that the DLA supports, and the C of a region: one job.

The DLA computes (sum * factor + offset) >> shift with a factor and an offset for each channel, in
32 bits that wrap around. The result is clipped to int8; a ReLU makes 0 the minimum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

from firmwright.device import (
    Composite,
    Constant,
    Cycles,
    Kernel,
    LoweredRegion,
    Parameter,
    Placement,
    Region,
    Rule,
    constant_array,
    count_readers,
    dtype_of,
    find_violations,
    main_bindings,
    read_variables,
    short_name,
    static_shape,
)

RULES = (
    Rule(
        "int8",
        {"dtypes": {"are": "int8"}},
        "its input and weights are {dtypes}; the DLA multiplies int8",
    ),
    Rule(
        "weights",
        {"weights": {"is": "constant"}},
        "its weights are {weights}; the DLA supports constants",
    ),
    Rule(
        "dense",
        {"groups": {"is": 1}, "dilation": {"are": 1}, "layout": {"is": "NCHW"}},
        "it has {groups} groups, dilation {dilation}, layout {layout}; the DLA supports 1, 1, NCHW",
    ),
    Rule(
        "kernel",
        {"largest_side": {"within": [1, 7]}},
        "its kernel is {kernel}; the DLA supports sides up to 7",
    ),
    Rule(
        "stride",
        {"strides": {"one_of": [[1, 1], [2, 2]]}},
        "its strides are {strides}; the DLA supports [1, 1] and [2, 2]",
    ),
    Rule(
        "result",
        {"result": {"is": "int8"}},
        "its sums end as {result}; the DLA shifts them right, clips them and writes int8",
    ),
)

STEPS = ("multiply", "add", "right_shift", "clip", "astype", "relu")
"""Operators that follow a convolution, in this order."""
NOT_NEEDED = ("multiply", "add", "relu")
"""Steps that a job may omit."""

START = """\
    const fw_dla_job job = {{
{members}
    }};
    fw_dla_start(&job);"""

Bindings = Mapping[relax.Var, relax.VarBinding]


@dataclass(frozen=True)
class Job:
    """A job: its constant arrays and its numbers, with their names in ``fw_dla_job``."""

    arrays: Mapping[str, npt.NDArray[Any]]
    numbers: Mapping[str, int]
    elements_in: int
    elements_out: int


def place_convolutions(module: tvm.IRModule) -> Placement:
    """Accept the convolutions that break no rule, with the operators of the DLA after them."""
    composites, refused = [], {}
    for chain in convolutions(module):
        broken = find_violations(RULES, facts_of(chain))
        if broken:
            refused[chain[0].var] = broken
        else:
            composites.append(Composite("conv2d", tuple(b.var for b in chain)))
    return Placement(tuple(composites), refused)


def convolutions(module: tvm.IRModule) -> Iterator[list[relax.VarBinding]]:
    """Yield each convolution of ``main`` with the steps of the DLA after it.

    Between the steps are casts to uint32 and back, because in C only unsigned sums wrap around.
    """
    bindings, uses = main_bindings(module), count_readers(module)
    bound = {b.var: b for b in bindings}
    reader = {v: b for b in bindings for v in read_variables(b.value) if uses[v] == 1}
    for binding in bindings:
        if short_name(binding.value) != "conv2d":
            continue
        chain, constants = [binding], []
        for step in STEPS:
            behind = reader.get(chain[-1].var)
            while behind is not None and only_changes_sign(behind.value):
                chain.append(behind)
                behind = reader.get(behind.var)
            if behind is not None and is_step(step, behind.value, bound):
                chain.append(behind)
                constants += [bound[a] for a in behind.value.args[1:] if a in bound]
            elif step not in NOT_NEEDED:
                break
        yield [chain[0], *constants, *chain[1:]]


def only_changes_sign(call: relax.Expr) -> bool:
    """Return whether a call is a cast between int32 and uint32."""
    types = ("int32", "uint32")
    casts = short_name(call) == "astype"
    return casts and dtype_of(call.args[0]) in types and str(call.attrs.dtype) in types


def is_step(step: str, call: relax.Expr, bound: Bindings) -> bool:
    """Return whether an operator is this step, with constants that the DLA supports."""
    kind = short_name(call)
    if step == "relu":
        return kind == "relu" or (kind == "clip" and limits(call) == [0, 127])
    if kind != step:
        return False
    if step == "clip":
        return limits(call) == [-128, 127]
    if step == "astype":
        return str(call.attrs.dtype) == "int8"
    values = constant(call.args[1], bound)
    if values is None:
        return False
    by_channel = step != "right_shift" and values.ndim == 4 and values.shape[1] == values.size
    return by_channel or values.size == 1


def limits(clip: relax.Expr) -> list[int]:
    return [int(limit.value) for limit in clip.args[1:]]


def constant(value: relax.Expr, bound: Bindings) -> npt.NDArray[Any] | None:
    """Return the array of a constant, also of a constant that is cast; None for other values."""
    if value in bound and only_changes_sign(bound[value].value):
        value = bound[value].value.args[0]
    return constant_array(value) if isinstance(value, Constant) else None


def facts_of(chain: list[relax.VarBinding]) -> dict[str, Any]:
    """Return the facts for the rules."""
    call = chain[0].value
    kernel = list(static_shape(call.args[1])[2:])
    return {
        "kind": "conv2d",
        "dtypes": [dtype_of(a) for a in call.args],
        "weights": "constant" if isinstance(call.args[1], Constant) else "computed",
        "groups": int(call.attrs.groups),
        "dilation": [int(d) for d in call.attrs.dilation],
        "layout": str(call.attrs.data_layout),
        "kernel": kernel,
        "largest_side": max(kernel),
        "strides": [int(s) for s in call.attrs.strides],
        "result": dtype_of(chain[-1].var),
    }


def lower_convolution(
    region: Region, function: relax.Function, numbers: Mapping[str, Any]
) -> LoweredRegion:
    """Return the function that starts a region's job, and the parameters of the job."""
    job = job_of(function)
    members = [f".{name} = {name}," for name in ("input", *job.arrays, "output")]
    members += [f".{name} = {value}," for name, value in job.numbers.items()]
    kernel = Kernel(
        region=region.name,
        inputs=(Parameter("input", "int8", job.elements_in, region.inputs[0]),),
        weights=tuple(
            Parameter(name, str(array.dtype), array.size, f"{region.name}_{name}")
            for name, array in job.arrays.items()
        ),
        outputs=(Parameter("output", "int8", job.elements_out, region.outputs[0]),),
        scratch=(),
        body=START.format(members="\n".join(f"        {member}" for member in members)),
        functions=(),
        quantized_operators=0,
        float_operators=(),
        headers=("fw_dla.h",),
        cycles=cycles(region.macs, job, numbers),
        wait_function="fw_dla_wait",
    )
    return LoweredRegion(kernel, {f"{region.name}_{n}": a for n, a in job.arrays.items()})


def job_of(function: relax.Function) -> Job:
    """Read a region's weights, with the normalization folded to two numbers per channel."""
    bound = {b.var: b for block in function.body.blocks for b in block.bindings}
    calls = {short_name(b.value): b.value for b in bound.values()}  # the last of two clips
    convolution = calls["conv2d"]
    before, after = static_shape(convolution.args[0]), static_shape(convolution)
    weights = constant_array(convolution.args[1])

    def by_channel(step: str, otherwise: int) -> npt.NDArray[np.int32]:
        values = constant(calls[step].args[1], bound) if step in calls else None
        values = np.array(otherwise) if values is None else values
        return np.broadcast_to(values.reshape(-1), after[1:2]).astype("int32")

    arrays = {
        "weights": weights,
        "factors": by_channel("multiply", 1),
        "offsets": by_channel("add", 0),
    }
    pad_top, pad_left = (int(p) for p in convolution.attrs.padding[:2])
    numbers = {
        "images": after[0],
        "in_channels": before[1], "in_height": before[2], "in_width": before[3],
        "out_channels": after[1], "out_height": after[2], "out_width": after[3],
        "kernel_height": weights.shape[2], "kernel_width": weights.shape[3],
        "stride": int(convolution.attrs.strides[0]),
        "pad_top": pad_top, "pad_left": pad_left,
        "shift": int(constant_array(calls["right_shift"].args[1])),
        "relu": int("relu" in calls or limits(calls["clip"]) == [0, 127]),
    }  # fmt: skip
    return Job(arrays, numbers, prod(before), prod(after))


def cycles(macs: int, job: Job, numbers: Mapping[str, Any]) -> Cycles:
    """Return the estimated cycles of multiplications, non-overlapping transfers and the start."""
    moved = job.elements_in + job.elements_out + job.arrays["weights"].size
    computing = -(-macs // numbers["macs_per_cycle"])
    moving = -(-moved // numbers["bytes_per_cycle"])
    return Cycles(computing, max(0, moving - computing), numbers["start_cycles"])
