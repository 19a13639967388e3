"""The published cost model of DIANA's digital accelerator: a layer's cycles, given its tiles.

The model is MATCH's (arXiv 2410.08855). A block of 16 output channels by 16 columns of one row
of results takes C·FY·FX + C·FY·2 + 23 cycles, with C input channels and FY kernel rows that are
not padding for that row; a depthwise channel takes as much with C = 1. A transfer takes 70 cycles
and one more for every 16 bytes, for each contiguous piece of L2; the weights of a job are one
piece. The cycles of an addition are our assumption: 16 bytes a cycle, and 23 for the job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from firmwright.ir.kernels import Cycles
from firmwright.targets.soma_dory.device_layout import ROW
from firmwright.targets.soma_dory.layer import Kind, Layer
from firmwright.targets.soma_dory.tiles import (
    Copy,
    Job,
    Tile,
    aligned,
    input_copy,
    jobs,
    output_copy,
    row_axis,
    weight_bytes,
)


@dataclass(frozen=True)
class Accelerator:
    """The accelerator's numbers, from the platform's ``accelerators: {soma_dory: …}``.

    ``l1`` and ``weights`` are bytes of the memories for activations and weights.
    ``transfer_overhead`` and ``block_overhead`` are cycles; ``bytes_per_cycle`` divides 16, so that
    the cycles of a transfer are exact.
    """

    l1: int
    weights: int
    bytes_per_cycle: int
    transfer_overhead: int
    block_overhead: int
    lanes: int
    columns: int
    double_buffering: bool
    input_channel_tiling: bool

    @classmethod
    def of(cls, numbers: Mapping[str, Any]) -> Accelerator:
        """Read a platform's mapping, which may hold more than these."""
        return cls(**{field.name: numbers[field.name] for field in fields(cls)})

    def as_driven(self) -> Accelerator:
        """Return what generated code uses of it: no job of ``fw_soma.h`` continues sums."""
        return replace(self, input_channel_tiling=False)


@dataclass(frozen=True)
class Parts:
    """Cycles of one sample. Weights arrive when a job has started: nothing runs beside them."""

    compute: int
    weights: int
    moves: int
    jobs: int


def cycles(layer: Layer, tile: Tile, accelerator: Accelerator) -> Cycles:
    """Return the modelled cycles of the whole batch; ``transfer`` is what nothing hides."""
    parts = sample_parts(layer, tile, accelerator)
    transfer = parts.weights + parts.moves
    if accelerator.double_buffering:
        transfer -= hidden(parts)
    return Cycles(layer.batch * parts.compute, layer.batch * transfer, 0)


def hidden(parts: Parts) -> int:
    """Return the cycles saved where the next tile moves during a job: those of equal jobs.

    The first load and the last store have no job beside them.
    """
    shorter = min(parts.compute + parts.weights, parts.moves)
    return shorter - -(-shorter // parts.jobs)


def sample_parts(layer: Layer, tile: Tile, accelerator: Accelerator) -> Parts:
    compute = weights = moves = count = 0
    inputs = 2 if layer.kind is Kind.ADD else 1
    for job in jobs(layer, tile):
        count += 1
        compute += compute_cycles(layer, job, accelerator)
        weights += weight_cycles(layer, job.channels, job.in_channels, accelerator)
        if job.loads:
            copy = input_copy(layer, job.rows, job.columns, job.in_channels)
            moves += inputs * copy_cycles(copy, accelerator)
        if job.stores:
            copy = output_copy(layer, job.rows, job.columns, job.channels)
            moves += copy_cycles(copy, accelerator)
    return Parts(compute, weights, moves, count)


def compute_cycles(layer: Layer, job: Job, accelerator: Accelerator) -> int:
    """Return the cycles of one job's arithmetic."""
    overhead = accelerator.block_overhead
    if layer.kind is Kind.ADD:
        copy = output_copy(layer, job.rows, job.columns, job.channels)
        return copy.planes * copy.rows * copy.row_bytes // ROW + overhead
    if layer.kind is Kind.DEPTHWISE_CONV2D:
        blocks, depth = job.channels, 1
    else:
        blocks = -(-job.channels // accelerator.lanes)
        depth = aligned(job.in_channels) if layer.kind is Kind.DENSE else job.in_channels
    blocks *= -(-job.columns.size // accelerator.columns)
    axis = row_axis(layer)
    return sum(
        blocks * (depth * axis.kernel_elements(row) * (layer.kernel[1] + 2) + overhead)
        for row in range(job.rows.start, job.rows.start + job.rows.size)
    )


def weight_cycles(layer: Layer, channels: int, in_channels: int, accelerator: Accelerator) -> int:
    """Return the cycles in which a job's weights and bias are fetched, in one piece."""
    size = weight_bytes(layer, channels, in_channels)
    return accelerator.transfer_overhead + size // accelerator.bytes_per_cycle if size else 0


def copy_cycles(copy: Copy, accelerator: Accelerator) -> int:
    """Return the cycles of a transfer between L2 and L1."""
    count, piece = copy.pieces()
    return count * (accelerator.transfer_overhead + piece // accelerator.bytes_per_cycle)
