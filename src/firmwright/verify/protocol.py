"""Encodes samples for the firmware's console and decodes the outputs.

The firmware's side of the protocol is templates/application/main.c.j2.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.data.samples import Sample
from firmwright.errors import UserError
from firmwright.ir.storage import from_storage, to_storage
from firmwright.ir.tensors import Tensor
from firmwright.postprocess.boxes import Box

CHECK_PROGRAM = "check a changed main.c or fw_hal.c"

CYCLES = re.compile(r"@cycles ([0-9]+) ([0-9]+) ([0-9]+)")
"""A line with the cycles of a layer in a sample. Layer 0 is the whole inference."""


def encode_samples(inputs: Sequence[Tensor], samples: Sequence[Sample]) -> bytes:
    """Return the number of samples (4 bytes) and each sample's inputs, little-endian."""
    parts = (encode_inputs(inputs, sample) for sample in samples)
    return b"".join([len(samples).to_bytes(4, "little"), *parts])


def encode_inputs(inputs: Sequence[Tensor], sample: Sample) -> bytes:
    """Return the inputs of a sample as little-endian bytes."""
    arrays = (to_storage(sample[tensor.name], tensor.storage) for tensor in inputs)
    return b"".join(a.astype(a.dtype.newbyteorder("<")).tobytes() for a in arrays)


def decode_outputs(
    console: bytes, outputs: Sequence[Tensor], samples: int, exit_code: int
) -> list[list[npt.NDArray[Any]]]:
    """Return every output of every sample.

    Raises UserError if the run failed, or if outputs are missing or have a wrong size.
    """
    lines = console.decode("ascii", "replace").splitlines()
    if exit_code != 0 or lines[-1:] != [f"@done {samples}"]:
        tail = "\n".join(f"  {line}" for line in lines[-5:])
        raise UserError(
            f"the firmware ended with exit code {exit_code}; {CHECK_PROGRAM}. Its last lines:\n"
            f"{tail}"
        )
    arrays: dict[tuple[int, int], npt.NDArray[Any]] = {}
    for line in lines:
        fields = line.split(" ")
        if fields[0] != "@output":
            continue
        sample, index, data = int(fields[1]), int(fields[2]), bytes.fromhex(fields[3])
        if index >= len(outputs):
            continue  # an output with boxes
        tensor = outputs[index]
        if len(data) != tensor.bytes:
            wrong = f"the firmware wrote {len(data)} bytes; expected {tensor.bytes}"
            raise UserError(f"output '{tensor.name}': {wrong}: {CHECK_PROGRAM}")
        kind = np.dtype(tensor.dtype).newbyteorder("<")
        arrays[sample, index] = from_storage(
            np.frombuffer(data, kind), tensor.storage, tensor.shape
        )
    missing = [(s, i) for s in range(samples) for i in range(len(outputs)) if (s, i) not in arrays]
    if missing:
        sample, index = missing[0]
        name = outputs[index].name
        raise UserError(f"sample {sample}: the firmware did not write '{name}': {CHECK_PROGRAM}")
    return [[arrays[s, i] for i in range(len(outputs))] for s in range(samples)]


def join_consoles(consoles: Sequence[bytes], samples: Sequence[int]) -> bytes:
    """Join the console outputs of several runs to the output of one run with all samples."""
    lines: list[str] = []
    for number, console in enumerate(consoles):
        before = sum(samples[:number])
        for line in console.decode("ascii", "replace").splitlines():
            fields = line.split(" ")
            if fields[0] == "@output":
                line = " ".join([fields[0], str(before + int(fields[1])), *fields[2:]])
            if fields[0] != "@done":
                lines.append(line)
    return "\n".join([*lines, f"@done {sum(samples)}", ""]).encode()


def decode_counts(console: bytes) -> dict[str, int]:
    """Return the counts of emulated devices over all samples, sorted by name."""
    lines = console.decode("ascii", "replace").splitlines()
    counted = [line.split(" ") for line in lines if line.startswith("@count ")]
    return dict(sorted((name, int(number)) for _, name, number in counted))


def decode_cycles(console: bytes, samples: int, layers: int) -> list[int]:
    """Return the cycles over all samples: of the whole inferences, then of each layer.

    All numbers are 0 if the board has no counter. Raises UserError for missing lines, and for a
    counter with wrong values.
    """
    counts: dict[tuple[int, int], int] = {}
    for line in console.decode("ascii", "replace").splitlines():
        if match := CYCLES.fullmatch(line):
            sample, layer, cycles = map(int, match.groups())
            counts[sample, layer] = cycles
    for sample in range(samples):
        missing = [i for i in range(layers + 1) if (sample, i) not in counts]
        if missing:
            problem = f"sample {sample}: the firmware did not write the cycles of layer"
            raise UserError(f"{problem} {missing[0]}: {CHECK_PROGRAM}")
        whole, parts = counts[sample, 0], sum(counts[sample, i + 1] for i in range(layers))
        if whole < parts:
            problem = (
                f"sample {sample}: the inference has {whole:,} cycles, less than the {parts:,}"
            )
            raise UserError(f"{problem} of its layers; check `fw_hal_cycles` of the board")
    return [sum(counts[s, i] for s in range(samples)) for i in range(layers + 1)]


BOX_STRUCT = struct.Struct("<5fi")
"""A box as templates/postprocess/detection.h.j2 declares it, little-endian."""


def decode_boxes(console: bytes, outputs: int, samples: int, batch: int) -> list[list[Box]]:
    """Return the boxes of every picture. Each sample has ``batch`` pictures.

    After the ``outputs`` of a sample, each picture has one more output with its boxes. Raises
    UserError if boxes are missing.
    """
    boxes: dict[int, list[Box]] = {}
    for line in console.decode("ascii", "replace").splitlines():
        fields = line.split(" ")
        if fields[0] == "@output" and int(fields[2]) >= outputs:
            picture = int(fields[1]) * batch + int(fields[2]) - outputs
            boxes[picture] = [Box(*b) for b in BOX_STRUCT.iter_unpack(bytes.fromhex(fields[3]))]
    missing = [i for i in range(samples * batch) if i not in boxes]
    if missing:
        problem = f"picture {missing[0]}: the firmware did not write its boxes"
        raise UserError(f"{problem}: {CHECK_PROGRAM}")
    return [boxes[i] for i in range(samples * batch)]
