"""Writes the self-test of a firmware: golden samples, and a checksum of each layer's results.

Floating-point results have no checksum, because compilers may add in different orders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from sys import maxsize
from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.errors import UserError
from firmwright.ir.regions import Partition
from firmwright.ir.storage import to_storage
from firmwright.ir.tensors import Tensor
from firmwright.planning.plan import Location, Plan
from firmwright.project.interface import Port, view_as_c_type

FLOAT_TYPES = ("double", "float")

POLYNOMIAL = 0xEDB88320
"""The polynomial of zlib's CRC-32, the lowest bit first."""


def shift_bits(value: int) -> int:
    """Return a checksum after four zero bits."""
    for _ in range(4):
        value = value >> 1 ^ (POLYNOMIAL if value & 1 else 0)
    return value


CHECKSUM_TABLE = tuple(shift_bits(nibble) for nibble in range(16))


@dataclass(frozen=True)
class CheckedResult:
    """The bytes that a layer writes."""

    location: Location
    bytes: int


@dataclass(frozen=True)
class LayerCheck:
    """A layer whose results have a checksum, computed before step ``before`` of the plan.

    ``number`` counts the layers in order of execution, from 1. ``index`` is the number of the
    checksum.
    """

    index: int
    number: int
    before: int
    results: tuple[CheckedResult, ...]


def find_checks(partition: Partition, plan: Plan) -> tuple[LayerCheck, ...]:
    """Return the layers that have integer results, in the order of their checksums."""
    tensors = {t.name: t for t in partition.tensors}
    regions = {r.name: r for r in partition.regions}
    checks: list[tuple[int, int, tuple[CheckedResult, ...]]] = []
    number = 0
    for step in plan.schedule.steps:
        region = regions[step.region]
        if region.view:
            continue
        number += 1
        checked = (tensors[name] for name in region.outputs if has_checksum(tensors[name]))
        results = tuple(CheckedResult(plan.locations[t.name], t.bytes) for t in checked)
        if results:
            checks.append((number, step.done_before, results))
    return tuple(LayerCheck(index, *check) for index, check in enumerate(checks))


def has_checksum(tensor: Tensor) -> bool:
    """Return whether every byte of a tensor is equal on all machines (no floats or padding)."""
    return "float" not in tensor.dtype and tensor.storage is None


def decode_checksums(console: bytes, samples: int, layers: int) -> npt.NDArray[np.uint32]:
    """Return the checksums that a program printed: (samples, layers).

    Raises UserError if the number of checksums differs.
    """
    checksums = np.zeros((samples, layers), np.uint32)
    lines = [line.split() for line in console.decode("ascii", "replace").splitlines()]
    printed = [fields[1:] for fields in lines if fields[:1] == ["@checksum"]]
    if len(printed) != samples * layers:
        raise UserError(
            f"the firmware printed {len(printed)} checksums of layers; expected "
            f"{samples * layers}: check a changed main.c"
        )
    for sample, layer, checksum in printed:
        checksums[int(sample), int(layer)] = int(checksum)
    return checksums


@dataclass(frozen=True)
class GoldenSample:
    """A sample of the self-test in C: the inputs and the floating-point outputs."""

    number: int
    inputs: tuple[tuple[Port, npt.NDArray[Any]], ...]
    floats: tuple[tuple[Port, npt.NDArray[Any]], ...]
    checksums: tuple[str, ...]


@dataclass(frozen=True)
class Golden:
    samples: tuple[GoldenSample, ...]

    @property
    def float_types(self) -> list[str]:
        return sorted({port.c_type for sample in self.samples for port, _ in sample.floats})


def selftest_variables(
    checks: Sequence[LayerCheck] | None,
    golden: Mapping[str, npt.NDArray[Any]] | None,
    inputs: Sequence[Port],
    outputs: Sequence[Port],
) -> dict[str, Any]:
    return {
        "selftest": checks is not None,
        "checksums": len(checks or ()),
        "checksum_table": [f"0x{entry:08x}u" for entry in CHECKSUM_TABLE],
        "golden": write_golden(golden, inputs, outputs) if golden else None,
    }


def write_golden(
    golden: Mapping[str, npt.NDArray[Any]], inputs: Sequence[Port], outputs: Sequence[Port]
) -> Golden:
    """Return the samples with elements in memory order.

    Integer outputs are results of layers, which have checksums. 16-bit floats have neither a
    checksum nor a comparison.
    """
    floats = [(i, port) for i, port in enumerate(outputs) if port.c_type in FLOAT_TYPES]
    return Golden(
        tuple(
            GoldenSample(
                number=number,
                inputs=tuple(
                    (port, store(golden[f"input_{i}"][number], port))
                    for i, port in enumerate(inputs)
                ),
                floats=tuple(
                    (port, store(golden[f"output_{i}"][number], port)) for i, port in floats
                ),
                checksums=tuple(f"0x{checksum:08x}u" for checksum in checksums),
            )
            for number, checksums in enumerate(golden["checksums"])
        )
    )


def store(values: npt.NDArray[Any], port: Port) -> npt.NDArray[Any]:
    stored: npt.NDArray[Any] = to_storage(values, port.tensor.storage)
    return view_as_c_type(stored)


def list_checks(
    checks: Sequence[LayerCheck] | None, first: int, last: int = maxsize
) -> tuple[LayerCheck, ...]:
    return tuple(c for c in checks or () if first <= c.before <= last)
