"""Device ``dla``: convolutions of int8, each with its batch normalisation and its ReLU.

What it computes: (sum * factor + offset) >> shift with the factor and offset of each channel, in 32
bits that wrap around; clipped to int8, and with a ReLU to 0 at least.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from firmwright.targets import Context, Target

if TYPE_CHECKING:
    import tvm
    from tvm import relax

    from firmwright.codegen.kernel import Cycles, LoweredRegion
    from firmwright.partition.placement import Placement
    from firmwright.partition.regions import Region

RULES: tuple[dict[str, Any], ...] = (
    {
        "name": "int8",
        "where": {"dtypes": {"are": "int8"}},
        "sentence": "its input and weights are {dtypes}; the DLA multiplies int8",
    },
    {
        "name": "weights",
        "where": {"weights": {"is": "constant"}},
        "sentence": "its weights are {weights}; the DLA takes constants",
    },
    {
        "name": "dense",
        "where": {"groups": {"is": 1}, "layout": {"is": "NCHW"}, "dilation": {"are": 1}},
        "sentence": "it has {groups} groups, dilation {dilation} and layout {layout}; the DLA takes"
        " 1 group, no dilation and NCHW",
    },
    {
        "name": "kernel",
        "where": {"largest_side": {"within": [1, 7]}},
        "sentence": "its kernel is {kernel}; the DLA takes sides up to 7",
    },
    {
        "name": "stride",
        "where": {"strides": {"one_of": [[1, 1], [2, 2]]}},
        "sentence": "its strides are {strides}; the DLA takes [1, 1] and [2, 2]",
    },
    {
        "name": "result",
        "where": {"result": {"is": "int8"}},
        "sentence": "its sums end as {result}; the DLA shifts them right, clips them, and writes"
        " int8",
    },
)
"""What the DLA asks of a convolution, as :class:`firmwright.partition.rules.Rule`."""


STEPS = ("multiply", "add", "right_shift", "clip", "astype", "relu")
"""What may follow a convolution, in this order; a job without the first two or the last is one."""
LEFT_OUT = ("multiply", "add", "relu")


START = """\
    const fw_dla_job job = {{
{members}
    }};
    fw_dla_start(&job);"""


class DLA(Target):
    """The accelerator: one job is a convolution with all that follows it."""

    name = "dla"
    reason = "a convolution with its normalisation and ReLU is one job of the DLA"

    def place(self, module: tvm.IRModule, _context: Context, /) -> Placement:
        from firmwright.partition.placement import Composite, Placement
        from firmwright.partition.rules import Rule, objections

        rules = [Rule(**rule) for rule in RULES]
        composites, refused = [], {}
        for chain in convolutions(module):
            broken = objections(rules, facts_of(chain))
            if broken:
                refused[chain[0].var] = broken
            else:
                composites.append(Composite("conv2d", tuple(b.var for b in chain)))
        return Placement(tuple(composites), refused)

    def lower(self, region: Region, module: tvm.IRModule, context: Context, /) -> LoweredRegion:
        from firmwright.codegen.kernel import Kernel, LoweredRegion, Parameter

        layer = layer_of(module[region.name])
        arrays = {f"{region.name}_{role}": array for role, array in layer.arrays.items()}
        pointers = ("input", *layer.arrays, "output")
        lines = [f".{name} = {name}," for name in pointers]
        lines += [f".{name} = {value}," for name, value in layer.numbers.items()]
        kernel = Kernel(
            region=region.name,
            inputs=(Parameter("input", "int8", layer.elements_in, region.inputs[0]),),
            weights=tuple(
                Parameter(role, str(array.dtype), array.size, f"{region.name}_{role}")
                for role, array in layer.arrays.items()
            ),
            outputs=(Parameter("output", "int8", layer.elements_out, region.outputs[0]),),
            scratch=(),
            body=START.format(members="\n".join(f"        {line}" for line in lines)),
            functions=(),
            quantised_operators=0,
            float_operators=(),
            headers=("fw_dla.h",),
            waits="fw_dla_wait",
            cycles=cycles(region.macs, layer, context.platform.accelerators["dla"]),
        )
        return LoweredRegion(kernel, arrays)


@dataclass(frozen=True)
class Layer:
    """A job: its constant arrays and its numbers, by the names that ``fw_dla_job`` gives them."""

    arrays: Mapping[str, Any]
    numbers: Mapping[str, int]
    elements_in: int
    elements_out: int


def convolutions(module: tvm.IRModule) -> Iterator[list[relax.VarBinding]]:
    """Yield every convolution of ``main`` with what the DLA computes behind it.

    firmwright computes sums that may wrap around in uint32, between casts.
    """
    from firmwright.partition.grouping import read_variables
    from firmwright.partition.operators import short_name
    from firmwright.transforms.rewriting import main_bindings, readers

    bindings, uses = main_bindings(module), readers(module)
    bound = {b.var: b for b in bindings}
    reader = {v: b for b in bindings for v in read_variables(b.value) if uses[v] == 1}
    for binding in bindings:
        if short_name(binding.value) != "conv2d":
            continue
        chain, beside = [binding], []
        for step in STEPS:
            behind = reader.get(chain[-1].var)
            while behind is not None and only_changes_sign(behind.value):
                chain.append(behind)
                behind = reader.get(behind.var)
            if (
                behind is not None
                and short_name(behind.value) == step
                and fits(behind.value, bound)
            ):
                chain.append(behind)
                beside += [bound[a] for a in behind.value.args[1:] if a in bound]
            elif step not in LEFT_OUT:
                break
        yield [chain[0], *beside, *chain[1:]]


def only_changes_sign(call: relax.Expr) -> bool:
    """Tell a cast between int32 and uint32."""
    from firmwright.partition.operators import short_name
    from firmwright.transforms.rewriting import dtype_of

    types = ("int32", "uint32")
    casts = short_name(call) == "astype"
    return casts and dtype_of(call.args[0]) in types and str(call.attrs.dtype) in types


def fits(call: relax.Expr, bound: Mapping[relax.Var, relax.VarBinding]) -> bool:
    """Tell whether the DLA computes this step with these constants."""
    from firmwright.partition.operators import short_name

    kind = short_name(call)
    if kind == "clip":
        return [int(limit.value) for limit in call.args[1:]] == [-128, 127]
    if kind == "astype":
        return str(call.attrs.dtype) == "int8"
    if kind == "relu":
        return True
    values = constant(call.args[1], bound)
    if values is None:
        return False
    by_channel = kind != "right_shift" and values.ndim == 4 and values.shape[1] == values.size
    return by_channel or values.size == 1


def constant(value: relax.Expr, bound: Mapping[relax.Var, relax.VarBinding]) -> Any:
    """Return the array of a constant, also of one that is cast; None for anything else."""
    from firmwright.transforms.rewriting import Constant, constant_array

    if value in bound and only_changes_sign(bound[value].value):
        value = bound[value].value.args[0]
    return constant_array(value) if isinstance(value, Constant) else None


def facts_of(chain: list[relax.VarBinding]) -> dict[str, Any]:
    """Return what the rules ask about."""
    from firmwright.transforms.rewriting import Constant, dtype_of, static_shape

    call = chain[0].value
    attrs, weights = call.attrs, call.args[1]
    kernel = list(static_shape(weights)[2:])
    return {
        "kind": "conv2d",
        "dtypes": [dtype_of(a) for a in call.args],
        "weights": "constant" if isinstance(weights, Constant) else "computed",
        "groups": int(attrs.groups),
        "dilation": [int(d) for d in attrs.dilation],
        "layout": str(attrs.data_layout),
        "kernel": kernel,
        "largest_side": max(kernel),
        "strides": [int(s) for s in attrs.strides],
        "result": dtype_of(chain[-1].var),
    }


def layer_of(function: relax.Function) -> Layer:
    """Read the job of a region: its own weights, and factor and offset of each channel."""
    import numpy as np

    from firmwright.partition.operators import short_name
    from firmwright.transforms.rewriting import constant_array, static_shape

    bound = {b.var: b for block in function.body.blocks for b in block.bindings}
    calls = {short_name(b.value): b.value for b in bound.values()}
    convolution = calls["conv2d"]
    _, depth, height, width = static_shape(convolution.args[0])
    batch, channels, out_height, out_width = static_shape(convolution)
    weights = constant_array(convolution.args[1])

    def by_channel(step: str, otherwise: int) -> Any:
        values = constant(calls[step].args[1], bound) if step in calls else np.array(otherwise)
        return np.broadcast_to(values.reshape(-1), (channels,)).astype("int32")

    numbers = {
        "images": batch,
        "in_channels": depth, "in_height": height, "in_width": width,
        "out_channels": channels, "out_height": out_height, "out_width": out_width,
        "kernel_height": weights.shape[2], "kernel_width": weights.shape[3],
        "stride": int(convolution.attrs.strides[0]),
        "pad_top": int(convolution.attrs.padding[0]), "pad_left": int(convolution.attrs.padding[1]),
        "shift": int(constant_array(calls["right_shift"].args[1])),
        "relu": int("relu" in calls),
    }  # fmt: skip
    return Layer(
        {"weights": weights, "factors": by_channel("multiply", 1), "offsets": by_channel("add", 0)},
        numbers,
        batch * depth * height * width,
        batch * channels * out_height * out_width,
    )


def cycles(macs: int, layer: Layer, numbers: Mapping[str, Any]) -> Cycles:
    """Model a job: multiplications, then bytes that do not move meanwhile, and its start."""
    from firmwright.codegen.kernel import Cycles

    moved = layer.elements_in + layer.elements_out + layer.arrays["weights"].size
    computing = -(-macs // numbers["macs_per_cycle"])
    moving = -(-moved // numbers["bytes_per_cycle"])
    return Cycles(computing, max(0, moving - computing), numbers["start_cycles"])
