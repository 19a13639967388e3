"""Estimates the cycles of a layer with given tiles, with the published cost model of DIANA.

The model is from MATCH (arXiv 2410.08855). A block has 16 output channels by 16 columns of one row
of results. A block needs C·FY·FX + C·FY·2 + 23 cycles. C is the number of input channels. FY is the
number of kernel rows that are not padding for this row. A depthwise channel needs as many cycles as
a block with C = 1. A transfer needs 70 cycles per contiguous piece of L2, and one more cycle per 16
bytes. The weights of a job are one piece, and a depthwise layer has one job per channel
(diana-driver.md, J4). We assume that an addition needs one cycle per 16 bytes, and 23 cycles for
the job. The analog core has no public model. We assume that its layers need the cycles of the
digital core.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from firmwright.devices.soma_dory import tiles
from firmwright.devices.soma_dory.accelerator_layer import AcceleratorLayer
from firmwright.devices.soma_dory.device_layout import ROW
from firmwright.ir.kernels import Cycles
from firmwright.ir.layer import LayerKind


@dataclass(frozen=True)
class Accelerator:
    """The accelerator's numbers, from the platform's ``accelerators: {soma_dory: …}``.

    ``l1`` and ``weights`` are the bytes of the memories for activations and weights.
    ``transfer_overhead`` and ``block_overhead`` are cycles. ``bytes_per_cycle`` divides 16, so that
    the cycles of a transfer are exact. ``analog_columns`` is the number of columns of the analog
    core's array, and the maximum number of outputs per job.
    """

    l1: int
    weights: int
    bytes_per_cycle: int
    transfer_overhead: int
    block_overhead: int
    lanes: int
    columns: int
    double_buffering: bool
    analog_columns: int

    @classmethod
    def from_numbers(cls, numbers: Mapping[str, Any]) -> Accelerator:
        """Return the numbers of a platform's mapping, which may contain other keys."""
        return cls(**{field.name: numbers[field.name] for field in fields(cls)})


def estimate_cycles(layer: AcceleratorLayer, tile: tiles.Tile, accelerator: Accelerator) -> Cycles:
    """Return the estimated cycles of the whole batch. ``transfer`` excludes overlapped cycles.

    A job loads its weights before it computes. With double buffering, the next tile is transferred
    during a job. All jobs have equal cost, and the first load and the last store do not overlap.
    """
    compute = weights = moves = count = 0
    inputs = tiles.count_inputs(layer)
    for job, times in tiles.count_jobs(layer, tile):
        count += times
        compute += times * job_cycles(layer, job, accelerator)
        weights += times * weight_cycles(layer, job.channels, accelerator)
        if job.loads:
            planes = tiles.count_planes(layer, job.channels)
            copy = tiles.input_transfer(layer, job.rows, job.columns, planes)
            moves += times * inputs * transfer_cycles(copy, accelerator)
        copy = tiles.output_transfer(layer, job.rows, job.columns, job.channels)
        moves += times * transfer_cycles(copy, accelerator)
    shorter = min(compute + weights, moves) if accelerator.double_buffering else 0
    transfer = weights + moves - (shorter - -(-shorter // count))
    return Cycles(layer.batch * compute, layer.batch * transfer, 0)


def job_cycles(layer: AcceleratorLayer, job: tiles.TileJob, accelerator: Accelerator) -> int:
    overhead = accelerator.block_overhead
    if layer.kind is LayerKind.ADD:
        copy = tiles.output_transfer(layer, job.rows, job.columns, job.channels)
        return copy.planes * copy.plane_bytes // ROW + overhead
    if layer.kind is LayerKind.DEPTHWISE_CONV2D:
        blocks, depth = job.channels, 1
    else:
        blocks = -(-job.channels // accelerator.lanes)
        depth = tiles.count_planes(layer, job.channels)
    blocks *= -(-job.columns // accelerator.columns)
    products = depth * job.rows.kernel_rows * (layer.kernel[1] + 2)
    return blocks * (products + overhead * job.rows.size)


def weight_cycles(layer: AcceleratorLayer, channels: int, accelerator: Accelerator) -> int:
    """Return the cycles to fetch weights and bias as one piece, or as one piece per depthwise
    channel."""
    size = tiles.weight_bytes(layer, channels)
    fetches = channels if layer.kind is LayerKind.DEPTHWISE_CONV2D else 1
    once = accelerator.transfer_overhead - (-size // accelerator.bytes_per_cycle) if size else 0
    return fetches * once


def transfer_cycles(copy: tiles.TileTransfer, accelerator: Accelerator) -> int:
    count, piece = copy.pieces()
    return count * (accelerator.transfer_overhead + piece // accelerator.bytes_per_cycle)
