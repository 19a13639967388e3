"""Explains the device of every operator and the reason: the result of ``firmwright explain``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from types import MappingProxyType

import msgspec

from firmwright.codegen.names import escape_comment
from firmwright.ir.regions import Partition, RuleViolation
from firmwright.report.advice import Advice
from firmwright.report.layer_memories import LayerMemories
from firmwright.report.rows import align_columns

LONGEST_NAME, SHORTEST_NAME = 80, 12
"""The maximum length of an operator's name in a file, and the minimum on a terminal."""


@dataclass(frozen=True)
class OperatorPlacement:
    """A region: one operator of the model, or several operators that run together on a device.

    ``name`` has the names in the source model, separated by commas. ``kind`` is the kind of the
    main operator, such as ``conv2d``. ``shape`` is the shape of the first result, in the layout of
    the compiled network. ``macs`` are the multiply-accumulates of one inference.

    ``device`` runs the operator, and ``reason`` states why. ``refusals`` are the broken rules of
    the devices that precede ``device`` in the target. ``kernel`` is the variant of the C code, or
    '' if there is only one variant.

    ``view`` is true if the operator only changes the shape of its input, without code. ``moves`` is
    true if the operator only copies a tensor or changes its layout, and is not in the model.
    ``memories`` exist if the platform has several memories to choose from.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    macs: int
    device: str
    reason: str
    refusals: tuple[RuleViolation, ...]
    view: bool
    moves: bool
    kernel: str
    memories: LayerMemories | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True)
class Summary:
    """Multiply-accumulates of one inference, in total and by device.

    ``boundaries`` is the number of tensors that one device writes and another device reads. Inputs
    and outputs of the network count as tensors of the last device. ``operators_by_device`` excludes
    views and operators that only move a tensor. ``copied_bytes`` is the number of bytes that pass
    between memories, because some devices that use a tensor reach different memories.
    """

    macs: int
    macs_by_device: dict[str, int]
    operators_by_device: dict[str, int]
    boundaries: int
    copied_bytes: int


@dataclass(frozen=True)
class Explanation:
    """The output of ``firmwright explain --json``."""

    operators: tuple[OperatorPlacement, ...]
    summary: Summary
    advice: tuple[Advice, ...] = ()


def explain(
    partition: Partition,
    devices: Sequence[str],
    kernels: Mapping[str, str] = MappingProxyType({}),
    memories: Mapping[str, LayerMemories] = MappingProxyType({}),
) -> Explanation:
    """Return the explanation of a partition. ``devices`` are the devices of the mix, in order.

    ``kernels`` maps the names of regions to the known variants of the C code. ``memories`` has the
    memories of the regions' parts.
    """
    shapes = {tensor.name: tensor.shape for tensor in partition.tensors}
    operators = tuple(
        OperatorPlacement(
            name=", ".join(region.sources) or region.name,
            kind=region.anchor,
            shape=shapes[region.outputs[0]],
            macs=region.macs,
            device=region.device,
            reason=region.reason,
            refusals=region.refusals,
            view=region.view,
            moves=region.moves,
            kernel=kernels.get(region.name, ""),
            memories=memories.get(region.name, msgspec.UNSET),
        )
        for region in partition.regions
    )
    macs, counts = Counter[str](), Counter[str]()
    for operator in operators:
        macs[operator.device] += operator.macs
        counts[operator.device] += not (operator.view or operator.moves)
    return Explanation(
        operators,
        Summary(
            macs=partition.macs,
            macs_by_device={device: macs[device] for device in devices},
            operators_by_device={device: counts[device] for device in devices},
            boundaries=count_boundaries(partition, devices[-1]),
            copied_bytes=partition.copied_bytes,
        ),
    )


def count_boundaries(partition: Partition, last: str) -> int:
    """Return the number of tensors that cross from one device to another.

    A view counts as its input. A view that joins tensors counts as a separate tensor, because one
    device wrote all parts.
    """
    writer = dict.fromkeys(partition.inputs, last)
    origin = {tensor: tensor for tensor in partition.inputs}
    crossing: set[tuple[str, str]] = set()

    def read(tensors: tuple[str, ...], device: str) -> None:
        crossing.update((origin[t], device) for t in tensors if writer[t] != device)

    for region in partition.regions:
        if region.view:
            source, (shown,) = region.inputs[0], region.outputs
            origin[shown] = shown if region.joins else origin[source]
            writer[shown] = writer[source]
            continue
        read(region.inputs, region.device)
        for tensor in region.outputs:
            writer[tensor], origin[tensor] = region.device, tensor
    read(partition.outputs, last)
    return len(crossing)


def format_table(explanation: Explanation, width: int | None = None) -> str:
    """Return a table with a line for each operator. Broken rules are below the line.

    A device's reason to accept operators is shown once. On a terminal of ``width`` columns, names
    are cut to the width and longer lines are wrapped.
    """
    rows: list[tuple[str, ...]] = [("kind", "shape", "MACs", "device", "kernel", "operator")]
    for o in explanation.operators:
        shape = " x ".join(map(str, o.shape)) or "scalar"
        device = "no code" if o.view else o.device
        kernel, _, _ = o.kernel.partition(":")
        rows.append((o.kind, shape, f"{o.macs:,}", device, kernel, escape_comment(o.name)))
    if not any(o.kernel for o in explanation.operators):
        rows = [(*row[:4], row[5]) for row in rows]
    head, *lines = align_columns(cut_names(rows, width), "<<><<<"[: len(rows[0])])
    shown = [head]
    last = [*explanation.summary.macs_by_device][-1]
    for operator, line in zip(explanation.operators, lines, strict=True):
        shown.append(line)
        why = f"    {operator.device}: {operator.reason}"
        if (operator.device != last or operator.moves) and why not in shown:
            shown.append(why)
        if not operator.view:
            shown += [f"    {r.device}: {r.rule}: {r.sentence}" for r in operator.refusals]
        shown += [f"    memories: {operator.memories}"] if operator.memories else []
        _, _, missing = operator.kernel.partition(": ")
        shown += [f"    {operator.device}: {missing}"] if missing else []
    shown.append(format_summary(explanation.summary))
    shown += [f"advice: {escape_comment(str(advice))}" for advice in explanation.advice]
    return "\n".join(part for line in shown for part in wrap_line(line, width))


def cut_names(rows: Sequence[tuple[str, ...]], width: int | None) -> list[tuple[str, ...]]:
    """Cut the last column, the names of a region's operators, to the width of a line."""
    room = LONGEST_NAME
    if width is not None:
        others = zip(*(row[:-1] for row in rows), strict=True)
        room = max(width - sum(2 + max(map(len, column)) for column in others), SHORTEST_NAME)
    return [(*r[:-1], r[-1] if len(r[-1]) <= room else f"{r[-1][: room - 1]}…") for r in rows]


def wrap_line(line: str, width: int | None) -> list[str]:
    """Return a line in parts of at most ``width`` columns. Later parts are indented further."""
    if width is None or len(line) <= width:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return wrap(line, max(width, 2 * len(indent)), subsequent_indent=indent)


def format_summary(summary: Summary) -> str:
    """Return a text such as ``92.4 % of MACs on npu, 3 boundaries, 7 operators on c``."""
    *offered, last = summary.macs_by_device
    shares = [f"{compute_mac_share(summary, d):.1f} % of MACs on {d}" for d in offered or [last]]
    counted = (
        format_count(summary.boundaries, "boundary", "boundaries"),
        f"{format_count(summary.operators_by_device[last], 'operator', 'operators')} on {last}",
    )
    copied = [f"{summary.copied_bytes:,} bytes copied"] if summary.copied_bytes else []
    return ", ".join([*shares, *counted, *copied])


def format_count(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"


def compute_mac_share(summary: Summary, device: str) -> float:
    """Return a device's share of the network's multiply-accumulates, in percent."""
    return 100 * summary.macs_by_device[device] / summary.macs if summary.macs else 0.0


def check_offload(
    explanation: Explanation,
    allow_fallback: bool,
    require_offload: float | None,
    ends_on_processor: bool = True,
) -> dict[str, str]:
    """Map the recipe's key of each requirement that is not met to a text.

    The text has the operators and the broken rules. ``require_offload`` is in percent of the
    network's multiply-accumulates. A mix of one device meets every requirement. No operator falls
    back to the processor in a mix that ends with an accelerator that runs C.
    """
    *offered, last = explanation.summary.macs_by_device
    problems: dict[str, str] = {}
    if not offered:
        return problems
    if ends_on_processor and not allow_fallback:
        fallen = list_operators(explanation, last, lambda o: not (o.view or o.moves))
        if fallen:
            problems["allow_fallback"] = f"false, but on {last} are\n" + "\n".join(fallen)
    if require_offload is not None:
        share = 100.0 - compute_mac_share(explanation.summary, last)
        if explanation.summary.macs and share < require_offload:
            heavy = list_operators(explanation, last, lambda o: o.macs > 0)
            problems["require_offload"] = (
                f"{require_offload:g} %, but {share:.1f} % of MACs are on "
                f"{', '.join(offered)}; on {last} are\n" + "\n".join(heavy)
            )
    return problems


def list_operators(
    explanation: Explanation, device: str, counts: Callable[[OperatorPlacement], bool]
) -> list[str]:
    """Return a line for each operator on a device, and a line for each rule that it breaks."""
    lines = []
    for operator in explanation.operators:
        if operator.device == device and counts(operator):
            lines.append(f"  {operator.kind} ('{operator.name}'), {operator.macs:,} MACs")
            lines += [f"    {r.device}: {r.rule}: {r.sentence}" for r in operator.refusals]
    return lines
