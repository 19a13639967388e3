"""Device ``dsp``: sorting, gathering and elementwise operators on integers of up to 32 bits.

A DSP runs C. What the device behind it in the mix makes of a region's operators is compiled for the
DSP, as one function; a job is a call of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from textwrap import indent
from typing import TYPE_CHECKING, Any

from firmwright.targets import Context, Target

if TYPE_CHECKING:
    import tvm
    from tvm import relax

    from firmwright.codegen.kernel import Cycles, Kernel, LoweredRegion
    from firmwright.partition.grouping import Group
    from firmwright.partition.placement import Placement
    from firmwright.partition.regions import Region

SORTING = ("argsort", "sort", "topk")
OPERATORS = (
    *SORTING, "add", "astype", "clip", "expand_dims", "greater", "less", "max", "maximum", "min",
    "minimum", "multiply", "negative", "prod", "relu", "reshape", "right_shift", "squeeze",
    "strided_slice", "subtract", "sum", "take", "where",
)  # fmt: skip
RULES: tuple[dict[str, Any], ...] = (
    {
        "name": "operator",
        "where": {"kind": {"one_of": OPERATORS}},
        "sentence": "the DSP's library has no {kind}",
    },
    {
        "name": "integers",
        "where": {"bits": {"within": [1, 32]}},
        "sentence": "it computes {dtype}; the DSP has integers of up to 32 bits",
    },
)
"""What the DSP asks of an operator, as :class:`firmwright.partition.rules.Rule`."""

BITS = {"bool": 8, "int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32}
POINTERS = 16
"""Pointers that a job hands over in each direction; ``fw_dsp.h`` has room for as many."""


class DSP(Target):
    """The signal processor: one job runs as many operators that follow each other as it can."""

    name = "dsp"
    reason = "the DSP has every operator of it"

    def place(self, module: tvm.IRModule, _context: Context, /) -> Placement:
        from firmwright.partition.grouping import group_operators, read_variables
        from firmwright.partition.merging import merge_acyclic
        from firmwright.partition.outline import dequantized_values, graph_of, kind_of_binding
        from firmwright.partition.placement import Composite, Placement

        bindings, outputs = graph_of(module)
        kind = kind_of_binding(module, dequantized_values(bindings), True)
        groups = group_operators(bindings, outputs, kind, {})
        home = {b.var: i for i, g in enumerate(groups) for b in (*g.bindings, *g.items)}
        reads = {
            i: sorted({home[v] for b in g.bindings for v in read_variables(b.value) if v in home})
            for i, g in enumerate(groups)
        }
        broken = {i: objections_to(group) for i, group in enumerate(groups)}
        taken = {i for i, found in broken.items() if not found}
        regions = merge_acyclic(range(len(groups)), reads, taken)
        return Placement(
            tuple(
                Composite("dsp_program", tuple(v for v in home if home[v] in region))
                for region in regions
            ),
            {v: broken[i] for v, i in home.items() if broken[i]},
        )

    def lower(self, region: Region, module: tvm.IRModule, context: Context, /) -> LoweredRegion:
        from firmwright.errors import UserError
        from firmwright.partition.nested import lower_in_layers

        lowered = lower_in_layers(region, module, context)
        kernel = lowered.kernel
        read, written = (*kernel.inputs, *kernel.weights), (*kernel.outputs, *kernel.scratch)
        if max(len(read), len(written)) > POINTERS:
            raise UserError(f"dsp: {region.name} has more than {POINTERS} inputs or outputs")
        program = replace(
            kernel,
            body=job_of(kernel),
            definitions=program_of(kernel),
            headers=(*kernel.headers, "fw_dsp.h"),
            waits="fw_dsp_wait",
            cycles=cycles(module[region.name], context.platform.accelerators["dsp"]),
        )
        return replace(lowered, kernel=program)


def objections_to(group: Group) -> tuple[Any, ...]:
    from tvm import relax

    from firmwright.partition.operators import short_name
    from firmwright.partition.rules import Rule, objections

    rules = [Rule(**rule) for rule in RULES]
    found: dict[Any, None] = {}
    for binding in group.bindings:
        kind = short_name(binding.value)
        for value in (binding.var, *getattr(binding.value, "args", ())):
            types = getattr(value.ty, "fields", [value.ty])
            for dtype in (str(t.dtype) for t in types if isinstance(t, relax.TensorType)):
                facts = {"kind": kind, "dtype": dtype, "bits": BITS.get(dtype)}
                found.update(dict.fromkeys(objections(rules, facts)))
    return tuple(found)


def program_of(kernel: Kernel) -> str:
    """Return the function that the DSP runs: the pointers of its job, then the region's C."""
    read, written = (*kernel.inputs, *kernel.weights), (*kernel.outputs, *kernel.scratch)
    lines = [
        f"const {p.c_type} *restrict {p.name} = job->read[{i}];" for i, p in enumerate(read)
    ] + [f"{p.c_type} *restrict {p.name} = job->written[{i}];" for i, p in enumerate(written)]
    pointers = indent("\n".join(lines), "    ")
    return (
        "/* What the DSP runs. */\n"
        f"static void program(const fw_dsp_job *job)\n{{\n{pointers}\n{kernel.body}\n}}"
    )


def job_of(kernel: Kernel) -> str:
    """Return the body of the region's function, which starts the job."""
    read = ", ".join(p.name for p in (*kernel.inputs, *kernel.weights))
    written = ", ".join(p.name for p in (*kernel.outputs, *kernel.scratch))
    return f"""\
    const fw_dsp_job job = {{
        .program = program,
        .read = {{{read}}},
        .written = {{{written}}},
    }};
    fw_dsp_start(&job);"""


def cycles(function: relax.Function, numbers: Mapping[str, Any]) -> Cycles:
    """Model a job: elements by the vector, sorting by insertion, and its start."""
    from math import prod

    from firmwright.codegen.kernel import Cycles
    from firmwright.partition.operators import short_name
    from firmwright.transforms.rewriting import static_shape

    total = 0
    for call in (b.value for block in function.body.blocks for b in block.bindings):
        tensors = [a for a in getattr(call, "args", ()) if hasattr(a.ty, "dtype")]
        most = max((prod(static_shape(t)) for t in tensors if hasattr(t.ty, "shape")), default=0)
        vectors = -(-most // numbers["lanes"])
        total += vectors * (numbers["sort_cycles"] if short_name(call) in SORTING else 1)
    return Cycles(total, 0, numbers["start_cycles"])
