"""Computes the charts of a report as boxes in percent of the frame. A template draws the boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from firmwright.planning.arena import Buffer
from firmwright.report.layer_rows import ReportedLayer
from firmwright.report.report import Memory, Report, Roof

DECIMALS = 3
"""The number of decimals of a percentage: one pixel on a screen of 100,000 pixels."""
LEAST_WIDTH = 0.1
"""The minimum width in percent. Narrower boxes would be invisible."""


@dataclass(frozen=True)
class ChartBox:
    """A rectangle in percent of the chart, from the chart's upper left corner.

    ``style`` is a class of the style sheet, and ``title`` is the text of the tooltip. ``layer`` is
    the number of the layer that the box represents, or None.
    """

    left: float
    top: float
    width: float
    height: float
    style: str
    title: str
    layer: int | None


@dataclass(frozen=True)
class Track:
    """The work of one device during an inference."""

    name: str
    boxes: tuple[ChartBox, ...]


@dataclass(frozen=True)
class ArenaChart:
    """The buffers of one memory: the steps from left to right, the offsets from bottom to top.

    ``bytes`` is the height. ``bound`` is the position of the lower bound in percent from the top,
    or None if the bound is unknown.
    """

    memory: str
    bytes: int
    bound: float | None
    boxes: tuple[ChartBox, ...]


@dataclass(frozen=True)
class ChartLine:
    """A straight line in percent. ``title`` is its label."""

    x1: float
    y1: float
    x2: float
    y2: float
    title: str


@dataclass(frozen=True)
class Tick:
    """A power of ten and its position in percent, from the left or from the top."""

    power: int
    position: float


@dataclass(frozen=True)
class Roofline:
    """MACs per cycle over MACs per byte, both axes logarithmic.

    The boxes are points without a width. ``across`` and ``upwards`` are the ticks of the axes.
    """

    points: tuple[ChartBox, ...]
    roofs: tuple[ChartLine, ...]
    across: tuple[Tick, ...]
    upwards: tuple[Tick, ...]


def name_style(devices: Sequence[str], device: str) -> str:
    return f"device-{devices.index(device) % 6}"


def draw_timeline(report: Report) -> tuple[Track, ...]:
    """Return a track for each device with its layers over time, or () if there is no timeline.

    A layer's time has up to four parts: the processor's instructions for the layer, and the
    computing, transfers and waiting of its device.
    """
    if report.total is None:
        return ()
    return tuple(
        Track(
            device,
            tuple(
                box
                for layer in report.layers
                if layer.device == device
                for box in draw_layer(layer, report)
            ),
        )
        for device in report.devices
    )


def draw_layer(layer: ReportedLayer, report: Report) -> list[ChartBox]:
    assert report.total is not None
    if layer.time is None:
        return []
    style, modelled = name_style(report.devices, layer.device), layer.time.modelled
    parts = [("processor", layer.time.counted)]
    if modelled:
        named = ("compute", modelled.compute), ("transfer", modelled.transfer)
        parts += [*named, ("stall", modelled.stall)]
    # The instructions that start a job in parallel to the processor precede the job.
    start = layer.time.end - layer.time.length
    boxes = []
    for name, length in parts:
        if length:
            left, width = (percent(n, report.total.total) for n in (start, length))
            title = f"{layer.title}: {length:,} {report.total.unit}, {name}"
            shown = max(width, LEAST_WIDTH)
            boxes.append(ChartBox(left, 0, shown, 100, f"{style} {name}", title, layer.number))
        start += length
    return boxes


def draw_arenas(memory: Memory) -> tuple[ArenaChart, ...]:
    sizes = {"ram": memory.arena, **memory.other_arenas}
    bounds = {"ram": memory.arena_lower_bound}
    return tuple(
        ArenaChart(
            name,
            size,
            100 - percent(bounds[name], size) if name in bounds else None,
            tuple(draw_buffer(b, memory, size) for b in memory.buffers if b.memory == name),
        )
        for name, size in sizes.items()
        if size
    )


def draw_buffer(buffer: Buffer, memory: Memory, size: int) -> ChartBox:
    names = memory.steps or ("no layer",)  # states of a network that only passes values on
    steps = len(names)
    first, last = names[buffer.first], names[buffer.last]
    return ChartBox(
        left=percent(buffer.first, steps),
        top=100 - percent(buffer.end, size),
        width=percent(buffer.last - buffer.first + 1, steps),
        height=percent(buffer.bytes, size),
        style=f"buffer-{buffer.first % 2}",
        title=f"{buffer.name}: {buffer.bytes:,} bytes at {buffer.offset:,}, {first} to {last}",
        layer=None,
    )


def draw_roofline(report: Report) -> Roofline | None:
    """Return each layer's position below the roofs, or None if no layer has MACs and cycles."""
    positions = [
        (layer, layer.macs / layer.size.moved, layer.macs / layer.length)
        for layer in report.layers
        if layer.macs and layer.length
    ]
    if not positions:
        return None
    ridges = [(r.macs_per_cycle / r.bytes_per_cycle, r.macs_per_cycle) for r in report.roofs]
    across = [x for _, x, _ in positions] + [x for x, _ in ridges]
    upwards = [y for _, _, y in positions] + [y for _, y in ridges]
    left, right = floor(log10(min(across))), ceil(log10(max(across)) + 1e-9)
    bottom, top = floor(log10(min(upwards))), ceil(log10(max(upwards)) + 1e-9)

    def locate(x: float, y: float) -> tuple[float, float]:
        return (
            percent(log10(x) - left, right - left),
            100 - percent(log10(y) - bottom, top - bottom),
        )

    points = tuple(
        ChartBox(
            *locate(x, y), 0, 0, name_style(report.devices, layer.device),
            f"{layer.title}: {y:.3g} MACs a cycle, {x:.3g} MACs a byte", layer.number,
        )
        for layer, x, y in positions
    )  # fmt: skip

    def draw_roof(roof: Roof) -> list[ChartLine]:
        ridge = roof.macs_per_cycle / roof.bytes_per_cycle
        title = f"{roof.device}: {roof.macs_per_cycle:g} MACs and {roof.bytes_per_cycle:g} bytes"
        start = max(ridge / 10 ** (top - bottom), 10**left)
        slope = ChartLine(
            *locate(start, start * roof.bytes_per_cycle), *locate(ridge, roof.macs_per_cycle), title
        )
        flat = ChartLine(slope.x2, slope.y2, 100, slope.y2, title)
        return [slope, flat]

    roofs = tuple(line for roof in report.roofs for line in draw_roof(roof))
    columns, rows = range(left, right), range(top, bottom, -1)
    return Roofline(
        points,
        roofs,
        tuple(Tick(n, percent(n - left, right - left)) for n in columns),
        tuple(Tick(n, percent(top - n, top - bottom)) for n in rows),
    )


def percent(part: float, whole: float) -> float:
    return round(100 * part / whole, DECIMALS)
