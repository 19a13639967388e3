"""Models the memories of the accelerator, and checks accesses to feature maps."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firmwright_ethos_u.stream import Operation

NHCWB16 = 1
BRICK = 16
"""The number of channels of a brick in NHCWB16."""

Array = NDArray[Any]
Bytes = NDArray[np.uint8]


class Memory:
    """The regions of a command stream, and the internal memory for the tables."""

    def __init__(self, regions: Mapping[int, Bytes], read_only: Collection[int], internal: int):
        """Use arrays of bytes as regions. The operations write into the arrays."""
        self.regions = dict(regions)
        self.read_only = frozenset(read_only)
        self.internal: Bytes = np.zeros(internal, np.uint8)

    def find(self, operation: Operation, region: int) -> Bytes:
        """Return the bytes of a region. Raises StreamError if the region does not exist."""
        if region not in self.regions:
            raise operation.reject(f"uses region {region}; the regions are {sorted(self.regions)}")
        return self.regions[region]

    def read(self, operation: Operation, region: int, start: int, length: int) -> Bytes:
        """Return a view of `length` bytes of a region."""
        return cut(operation, self.find(operation, region), f"region {region}", start, length)

    def find_writable(self, operation: Operation, region: int) -> Bytes:
        """Return the bytes of a writable region. Raises StreamError if the region is read-only."""
        if region in self.read_only:
            raise operation.reject(f"writes into region {region}, which is read-only")
        return self.find(operation, region)


def cut(operation: Operation, memory: Bytes, name: str, start: int, length: int) -> Bytes:
    """Return a view of `length` bytes at `start`. Raises StreamError if the memory is smaller."""
    if start + length > memory.size:
        raise operation.reject(
            f"accesses bytes {start} to {start + length} of {name}, which has {memory.size}"
        )
    return memory[start : start + length]


@dataclass(frozen=True)
class FeatureMap:
    """A tensor (height, width, depth) in memory. The names of its registers begin with `prefix`."""

    operation: Operation
    prefix: str
    """IFM, IFM2 or OFM."""
    shape: tuple[int, int, int]
    dtype: np.dtype[Any]
    layout: int
    """0 is NHWC, and 1 is NHCWB16."""

    @property
    def region(self) -> int:
        return self.operation[f"{self.prefix}_REGION"]

    def addresses(self) -> Array:
        """Return the address of each element: int64, (height, width, depth).

        A tensor has up to four tiles with separate base addresses. Left of WIDTH0, tile 0 has
        HEIGHT0 rows, and tile 2 has the rows below. Right of WIDTH0, tile 1 has HEIGHT1 rows, and
        tile 3 has the rows below.
        """
        height, width, depth = self.shape
        y, x, c = np.ogrid[:height, :width, :depth]
        height0, height1, width0 = (
            self.operation[f"{self.prefix}_{name}_M1"] + 1
            for name in ("HEIGHT0", "HEIGHT1", "WIDTH0")
        )
        right = x >= width0
        below = np.where(right, y >= height1, y >= height0)
        base = np.array([self.operation[f"{self.prefix}_BASE{tile}"] for tile in range(4)])
        row = np.where(below, y - np.where(right, height1, height0), y)
        stride_y, stride_x, stride_c = (
            self.operation[f"{self.prefix}_STRIDE_{axis}"] for axis in "YXC"
        )
        start = base[2 * below + right] + row * stride_y + (x - right * width0) * stride_x
        if self.layout == NHCWB16:
            inner = c // BRICK * stride_c + c % BRICK * self.dtype.itemsize
        else:
            inner = c * self.dtype.itemsize
        return np.asarray(start + inner, np.int64)

    def locate(self, memory: Bytes) -> Array:
        """Return the position of each byte of each element.

        Raises StreamError if a position is outside the memory.
        """
        first = self.addresses()
        if int(first.max()) + self.dtype.itemsize > memory.size:
            raise self.operation.reject(
                f"accesses byte {int(first.max())} of region {self.region} ({self.prefix}), "
                f"which has {memory.size}"
            )
        return first[..., None] + np.arange(self.dtype.itemsize)

    def read(self, memory: Memory) -> Array:
        """Return the values: int64, (height, width, depth)."""
        region = memory.find(self.operation, self.region)
        values = region[self.locate(region)].view(self.dtype.newbyteorder("<"))[..., 0]
        return values.astype(np.int64)

    def write(self, memory: Memory, values: Array) -> None:
        """Write values of shape (height, width, depth), which fit the type."""
        region = memory.find_writable(self.operation, self.region)
        stored = np.ascontiguousarray(values.astype(self.dtype.newbyteorder("<")))
        region[self.locate(region)] = stored[..., None].view(np.uint8)


def read_type(operation: Operation, register: str) -> tuple[np.dtype[Any], int]:
    """Return the type and the layout of a precision register.

    In IFM_PRECISION, the sign is bit 0 and the width is bits 2 and 3. In OFM_PRECISION, the width
    is bits 1 and 2. Raises StreamError for other types and layouts.
    """
    fields = operation.fields(register)
    precision, layout = fields["precision"], fields["format"]
    width = precision >> (1 if register.startswith("OFM") else 2)
    known = {(0, 0): "u1", (0, 1): "i1", (1, 0): "u2", (1, 1): "i2", (2, 1): "i4"}
    form = (width, precision & 1)
    gap = 0 if register.startswith("OFM") else precision & 2
    if form not in known or gap or layout > NHCWB16:
        raise operation.reject(
            f"has an unsupported {register} (precision {precision}, format {layout})"
        )
    return np.dtype(known[form]), layout


def output_map(operation: Operation) -> FeatureMap:
    dtype, layout = read_type(operation, "OFM_PRECISION")
    height, width, depth = (
        operation[f"OFM_{axis}_M1"] + 1 for axis in ("HEIGHT", "WIDTH", "DEPTH")
    )
    return FeatureMap(operation, "OFM", (height, width, depth), dtype, layout)


def input_map(operation: Operation, prefix: str, shape: tuple[int, int, int]) -> FeatureMap:
    dtype, layout = read_type(operation, f"{prefix}_PRECISION")
    return FeatureMap(operation, prefix, shape, dtype, layout)


def copy(operation: Operation, memory: Memory) -> None:
    """Execute a one-dimensional transfer to a region or to the internal memory."""
    if operation.parameter:
        raise operation.reject(f"has an unsupported parameter {operation.parameter:#x}")
    source = operation.fields("DMA0_SRC_REGION")
    target = operation.fields("DMA0_DST_REGION")
    if source["stride_mode"] or target["stride_mode"] or source["internal"]:
        raise operation.reject("copies in two dimensions or from the internal memory: unsupported")
    length = operation["DMA0_LEN"]
    values = memory.read(operation, source["region"], operation["DMA0_SRC"], length)
    if target["internal"]:
        room, name = memory.internal, "the internal memory"
    else:
        room, name = memory.find_writable(operation, target["region"]), f"region {target['region']}"
    cut(operation, room, name, operation["DMA0_DST"], length)[:] = values.copy()
