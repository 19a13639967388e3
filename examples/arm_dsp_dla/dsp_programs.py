"""The operators that the DSP supports, and the C of a region: a function for the DSP and a job.

A DSP runs C, so this module only wraps the C that firmwright generates for any core.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

import tvm
from tvm import relax

from firmwright.device import (
    Composite,
    Context,
    Cycles,
    Group,
    LoweredRegion,
    Parameter,
    Placement,
    Region,
    Rule,
    RuleViolation,
    UserError,
    find_dequantized,
    find_violations,
    group_operators,
    lower_in_layers,
    make_binding_kind,
    merge_acyclic,
    read_graph,
    read_variables,
    short_name,
    static_shape,
)

SORTING = ("argsort", "sort", "topk")
OPERATORS = (
    *SORTING, "add", "astype", "clip", "expand_dims", "greater", "less", "max", "maximum", "min",
    "minimum", "multiply", "negative", "prod", "relu", "reshape", "right_shift", "squeeze",
    "strided_slice", "subtract", "sum", "take", "where",
)  # fmt: skip
BITS = {"bool": 8, "int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32}
RULES = (
    Rule("operator", {"kind": {"one_of": OPERATORS}}, "the DSP's library has no {kind}"),
    Rule(
        "integers",
        {"bits": {"within": [1, 32]}},
        "it computes {dtype}; the DSP supports integers of up to 32 bits",
    ),
)

POINTERS = 16
"""Maximum pointers that a job passes in each direction, as in ``fw_dsp.h``."""

PROGRAM = """\
/* The program of the DSP. */
static void program(const fw_dsp_job *job)
{{
{pointers}
{body}
}}"""
START = """\
    const fw_dsp_job job = {{
        .program = program,
        .read = {{{read}}},
        .written = {{{written}}},
    }};
    fw_dsp_start(&job);"""


def place_programs(module: tvm.IRModule) -> Placement:
    """Accept every group of operators that breaks no rule, and merge adjacent groups."""
    bindings, outputs = read_graph(module)
    kind = make_binding_kind(module, find_dequantized(bindings), True)
    groups = group_operators(bindings, outputs, kind, {})
    home = {b.var: i for i, group in enumerate(groups) for b in (*group.bindings, *group.items)}
    reads = {
        i: sorted({home[v] for b in g.bindings for v in read_variables(b.value) if v in home})
        for i, g in enumerate(groups)
    }
    broken = {i: check_group(group) for i, group in enumerate(groups)}
    taken = {i for i, found in broken.items() if not found}
    programs = merge_acyclic(range(len(groups)), reads, taken)
    return Placement(
        tuple(Composite("program", tuple(v for v in home if home[v] in p)) for p in programs),
        {v: broken[i] for v, i in home.items() if broken[i]},
    )


def check_group(group: Group) -> tuple[RuleViolation, ...]:
    """Return the messages of the rules that the operators of a group break, each message once."""
    found: dict[RuleViolation, None] = {}
    for binding in group.bindings:
        for value in (binding.var, *getattr(binding.value, "args", ())):
            for kind in getattr(value.ty, "fields", [value.ty]):
                if isinstance(kind, relax.TensorType):
                    dtype, name = str(kind.dtype), short_name(binding.value)
                    facts = {"kind": name, "dtype": dtype, "bits": BITS.get(dtype)}
                    found.update(dict.fromkeys(find_violations(RULES, facts)))
    return tuple(found)


def lower_program(region: Region, module: tvm.IRModule, context: Context) -> LoweredRegion:
    """Return the function that starts a region's job, with the function that the DSP runs."""
    lowered = lower_in_layers(region, module, context)
    kernel = lowered.kernel
    read, written = (*kernel.inputs, *kernel.weights), (*kernel.outputs, *kernel.scratch)
    if max(len(read), len(written)) > POINTERS:
        raise UserError(f"dsp: {region.name} has more than {POINTERS} inputs or results")
    pointers = [f"const {pointer(p)} = job->read[{i}];" for i, p in enumerate(read)]
    pointers += [f"{pointer(p)} = job->written[{i}];" for i, p in enumerate(written)]
    numbers = context.platform.accelerators["dsp"]
    program = replace(
        kernel,
        definitions=PROGRAM.format(
            pointers="\n".join(f"    {line}" for line in pointers), body=kernel.body
        ),
        body=START.format(read=names(read), written=names(written)),
        headers=(*kernel.headers, "fw_dsp.h"),
        cycles=cycles(module[region.name], numbers),
        wait_function="fw_dsp_wait",
        events={f"fw_{name}_wait": f"fw_dsp_after_{name}" for name in numbers.get("waits_for", ())},
    )
    return replace(lowered, kernel=program)


def pointer(parameter: Parameter) -> str:
    return f"{parameter.c_type} *restrict {parameter.name}"


def names(parameters: tuple[Parameter, ...]) -> str:
    return ", ".join(parameter.name for parameter in parameters)


def cycles(function: relax.Function, numbers: Mapping[str, Any]) -> Cycles:
    """Return the modelled cycles: each operator's elements, one vector at a time, and the start."""
    total = 0
    for call in (b.value for block in function.body.blocks for b in block.bindings):
        tensors = [a for a in getattr(call, "args", ()) if isinstance(a.ty, relax.TensorType)]
        most = max((prod(static_shape(t)) for t in tensors), default=0)
        each = numbers["sort_cycles"] if short_name(call) in SORTING else 1
        total += -(-most // numbers["lanes"]) * each
    return Cycles(total, 0, numbers["start_cycles"])
