"""Reads inputs with the streaming engines, which deliver one vector per iteration.

An engine follows counts and strides in memory, so that the core computes no addresses. The
conditions are from TI's compiler pass. The innermost loop reads the input at only one index. The
index is affine in loops of constant lengths. No code writes the input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import tvm
from tvm import tirx
from tvm_ffi import structural_map, structural_walk

from firmwright.devices.c7x.transfers import LANE, make_call_stmt, make_sequence
from firmwright.ir.kernels import C_TYPES
from firmwright.ir.tensors import ELEMENT_BYTES
from firmwright.lowering.loop_structure import Pointer, ScheduledRegion

STREAM_ENGINES = 2
STREAM_VECTOR_BYTES = 64
"""The number of bytes in a vector that an engine delivers."""
MAX_DIMENSIONS = 5
"""The maximum loops that an engine follows, in addition to the vector's elements."""
FUNCTIONS = frozenset({"fw_stream_open", "fw_stream_next", "fw_stream_close"})


@dataclass(frozen=True)
class Stream:
    """The address pattern of one engine.

    ``dimensions`` are (count, bytes from one element to the next), the outermost first.
    """

    source: tirx.Buffer
    dimensions: tuple[tuple[int, int], ...]


def use_streams(scheduled: ScheduledRegion) -> tuple[ScheduledRegion, str]:
    """Return the region with streams for its innermost vector loop, and a note on the streams.

    The function must be flattened and annotated. The DMA still moves the inputs that it moved
    before.
    """
    loops = find_vector_nest(scheduled.function.body)
    loads = loads_by_buffer(loops[-1])
    local = {pointer.name for pointer in scheduled.pointers}
    streams: list[Stream] = []
    refusals: Counter[str] = Counter()
    for buffer, index in loads.items():
        decision = plan_stream(buffer, index, loops, local)
        if isinstance(decision, Stream) and len(streams) == STREAM_ENGINES:
            decision = f"beyond {STREAM_ENGINES} engines"
        if isinstance(decision, Stream):
            streams.append(decision)
        else:
            refusals[decision] += 1
    said = describe_streams(len(streams), len(loads), refusals)
    return (insert_streams(scheduled, streams) if streams else scheduled), said


def describe_streams(streams: int, inputs: int, refusals: Counter[str]) -> str:
    others = ", ".join(f"{why} ({count})" for why, count in sorted(refusals.items()))
    return f"Streams deliver {streams} of {inputs} inputs{others and f'; others: {others}'}."


def find_vector_nest(statement: tirx.Stmt) -> tuple[tirx.For, ...]:
    """Return the enclosing loops and the vector loop, or () if there is no vector loop."""
    if isinstance(statement, tirx.For):
        if statement.loop_var.name == LANE:
            return (statement,)
        inside = find_vector_nest(statement.body)
        return (statement, *inside) if inside else ()
    return next((n for s in getattr(statement, "seq", ()) if (n := find_vector_nest(s))), ())


def loads_by_buffer(loop: tirx.For) -> dict[tirx.Buffer, tirx.Expr]:
    """Return the only index at which an elementwise loop reads each buffer."""
    indices: dict[tirx.Buffer, tirx.Expr] = {}

    def see(load: tvm.ir.TensorLoad) -> None:
        indices[load.source] = load.indices[0]

    structural_walk(loop.body, (tvm.ir.TensorLoad, see))
    return indices


def plan_stream(
    buffer: tirx.Buffer, index: tirx.Expr, loops: Sequence[tirx.For], local: set[str]
) -> Stream | str:
    size = ELEMENT_BYTES[str(buffer.dtype)]
    if buffer.name in local:
        return "moved by the DMA"
    if int(loops[-1].extent) * size != STREAM_VECTOR_BYTES:
        return f"not {STREAM_VECTOR_BYTES} bytes per vector"
    *steps, first = find_affine_factors(index, loops)
    if not steps or steps[-1] != 1 or first != 0:
        return "not adjacent in a vector"
    around = zip(loops[:-1], steps, strict=False)
    dimensions = merge_dimensions([(int(loop.extent), step * size) for loop, step in around])
    if len(dimensions) > MAX_DIMENSIONS:
        return f"more than {MAX_DIMENSIONS} dimensions"
    return Stream(buffer, tuple(dimensions))


def find_affine_factors(index: tirx.Expr, loops: Sequence[tirx.For]) -> list[int]:
    """Return an index's factor for each loop, then its constant, or [0] if it is not affine."""
    analyzer = tvm.sym.Analyzer()
    for loop in loops:
        analyzer.bind(loop.loop_var, tvm.ir.Range.from_min_extent(loop.min, loop.extent))
    variables = [loop.loop_var for loop in loops]
    factors = tvm.sym.detect_linear_equation(analyzer.simplify(index), variables)
    constant = all(isinstance(part, tirx.IntImm) for part in factors)
    return [int(part) for part in factors] if factors and constant else [0]


def merge_dimensions(dimensions: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge adjacent dimensions if the outer one continues at the end of the inner one."""
    made: list[tuple[int, int]] = []
    for count, step in (d for d in dimensions if d[0] > 1):
        if made and made[-1][1] == count * step:
            made[-1] = (made[-1][0] * count, step)
        else:
            made.append((count, step))
    return made or [(1, STREAM_VECTOR_BYTES)]


def insert_streams(scheduled: ScheduledRegion, streams: Sequence[Stream]) -> ScheduledRegion:
    function = scheduled.function
    outermost = find_vector_nest(function.body)[0].loop_var
    lanes = [STREAM_VECTOR_BYTES // ELEMENT_BYTES[str(s.source.dtype)] for s in streams]
    vectors = [
        tirx.decl_buffer((count,), stream.source.dtype, f"stream_{n}")
        for n, (stream, count) in enumerate(zip(streams, lanes, strict=True))
    ]
    patterns = [
        tirx.decl_buffer((2 * len(s.dimensions),), "int32", f"pattern_{n}")
        for n, s in enumerate(streams)
    ]
    opened = [
        make_call_stmt("fw_stream_open", n, address(s.source), address(p), len(s.dimensions))
        for n, (s, p) in enumerate(zip(streams, patterns, strict=True))
    ]
    closed = [make_call_stmt("fw_stream_close", n) for n in range(len(streams))]

    def around(loop: tirx.For) -> tirx.Stmt:
        return make_sequence([*opened, loop, *closed]) if loop.loop_var.same_as(outermost) else loop

    body = structural_map(read_from_streams(function.body, streams, vectors), (tirx.For, around))
    parameters = [*function.params, *vectors, *patterns]
    pointers = [
        *(vector_pointer(n, v) for n, v in enumerate(vectors)),
        *(pattern_pointer(p, s) for p, s in zip(patterns, streams, strict=True)),
    ]
    return replace(
        scheduled,
        function=tirx.PrimFunc(parameters, body, function.ret_type, attrs=function.attrs),
        pointers=(*scheduled.pointers, *pointers),
        functions=scheduled.functions | FUNCTIONS,
    )


def read_from_streams(
    body: tirx.Stmt, streams: Sequence[Stream], vectors: Sequence[tirx.Buffer]
) -> tirx.Stmt:
    """Read the next vectors before the innermost loop, and use them in the loop."""
    (lane,) = (loop.loop_var for loop in find_vector_nest(body)[-1:])
    delivered = {s.source: v for s, v in zip(streams, vectors, strict=True)}
    following = [make_call_stmt("fw_stream_next", n) for n in range(len(streams))]

    def load(load: tvm.ir.TensorLoad) -> tvm.ir.TensorLoad:
        vector = delivered.get(load.source)
        return load if vector is None else tirx.BufferLoad(vector, [lane])

    def inside(statements: tirx.SeqStmt) -> tirx.SeqStmt:
        last = statements.seq[-1]
        if not isinstance(last, tirx.For) or last.loop_var.name != LANE:
            return statements
        changed = structural_map(last.body, (tvm.ir.TensorLoad, load))
        plain = tirx.For(last.loop_var, last.min, last.extent, last.kind, changed)
        return tirx.SeqStmt([*following, *statements.seq[:-1], plain])

    return structural_map(body, (tirx.SeqStmt, inside))


def address(buffer: tirx.Buffer) -> tirx.Expr:
    return tirx.address_of(tirx.BufferLoad(buffer, [0]))


def vector_pointer(number: int, vector: tirx.Buffer) -> Pointer:
    name, kind = str(vector.name), C_TYPES[str(vector.dtype)]
    return Pointer(name, f"const {kind} *{name} = fw_stream_vector({number});")


def pattern_pointer(pattern: tirx.Buffer, stream: Stream) -> Pointer:
    name = str(pattern.name)
    numbers = ", ".join(f"{{{count}, {step}}}" for count, step in stream.dimensions)
    return Pointer(name, f"static const fw_stream_dimension {name}[] = {{{numbers}}};")
