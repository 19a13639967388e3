"""Executes a command stream on the memories of a compiled network."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from firmwright_ethos_u.elementwise import execute
from firmwright_ethos_u.memory import Bytes, Memory, copy
from firmwright_ethos_u.operations import convolve, pool
from firmwright_ethos_u.stream import decode, read_payload

EXECUTORS = {
    "NPU_OP_CONV": convolve,
    "NPU_OP_DEPTHWISE": convolve,
    "NPU_OP_POOL": pool,
    "NPU_OP_ELEMENTWISE": execute,
}


def simulate(payload: bytes, regions: Mapping[int, Bytes], read_only: Collection[int]) -> None:
    """Execute the payload of a driver, and write the results into the regions.

    Raises StreamError if a command, register value or access is not supported.
    """
    accelerator, words = read_payload(payload)
    memory = Memory(regions, read_only, accelerator.shram_bytes)
    for operation in decode(words):
        if operation.name == "NPU_OP_DMA_START":
            copy(operation, memory)
        else:
            EXECUTORS[operation.name](operation, memory, accelerator)
