"""Computes the output channels of a layer in parts, so that each part decodes only its weights.

A layer with compressed weights decodes them before it runs. In parts, the decoded weights need
less memory. The results of a part are adjacent if the layer has one pixel. Otherwise the results of
a part are copied into the output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from firmwright.devices.cpu.forms.form import Form, Packing
from firmwright.devices.cpu.layer_functions import describe_layer, render_file
from firmwright.ir.byte_layers import AnyLayer
from firmwright.ir.kernels import Parameter, Parts, SourceFile
from firmwright.ir.layer import Array, Layer, LayerKind
from firmwright.ir.regions import Region

PART_BYTES = 8192
"""The maximum number of bytes of weights in a part, if such a part is possible."""

KINDS = (LayerKind.CONV2D, LayerKind.DENSE, LayerKind.WIDE_CONV2D, LayerKind.WIDE_DENSE)

BLOCKS = (16, 4)
"""The divisors of a part's number of channels, the best first. Forms compute blocks of channels."""

PLACE_CHANNELS = "place_channels"


@dataclass(frozen=True)
class SplitLayer:
    """The first of ``count`` equal parts of a layer, and the arrays of all parts.

    ``arrays`` has the arrays of the parts one after another. Arrays that are equal in all parts
    occur once, and are not in ``split``.
    """

    count: int
    part: Layer
    packing: Packing
    arrays: Mapping[str, Array]
    split: tuple[str, ...]

    def make_parts(self, lines: Sequence[str], output: Parameter) -> Parts:
        """Return the loop over the parts. ``lines`` compute one part."""
        lines = [*lines]
        if self.part.pixels > 1:
            size = self.part.out_channels * output.bytes // output.elements
            numbers = f"{self.part.pixels}, {size}, {self.count * size}"
            offset = f"output + part * {self.part.out_channels}"
            lines.append(f"{PLACE_CHANNELS}(output_part, {offset}, {numbers});")
        return Parts(self.count, self.split, "\n".join(f"        {line}" for line in lines))

    def make_scratch(self, region: Region, output: Parameter) -> tuple[Parameter, ...]:
        """Return the buffer for the results of a part, if they are not adjacent in the output."""
        if self.part.pixels == 1:
            return ()
        name = f"{region.name}_output_part"
        return (Parameter("output_part", output.dtype, self.part.output_elements, name),)

    def name_argument(self, parameter: Parameter) -> str:
        """Return the argument for a parameter in the call that computes a part."""
        if parameter.name == "output":
            adjacent = f"output + part * {self.part.out_channels}"
            return "output_part" if self.part.pixels > 1 else adjacent
        return f"{parameter.name}_part" if parameter.name in self.split else parameter.name

    @property
    def files(self) -> tuple[SourceFile, ...]:
        """The files of the function that copies results into the output."""
        if self.part.pixels == 1:
            return ()
        source = render_file(f"{PLACE_CHANNELS}.c", {})
        prototype = next(line for line in source.splitlines() if line.startswith("void "))
        header = render_file("header", {"name": PLACE_CHANNELS, "text": f"{prototype};"})
        return (
            SourceFile(f"{PLACE_CHANNELS}.h", f"{header}\n"),
            SourceFile(f"{PLACE_CHANNELS}.c", f"{source}\n"),
        )


def split_layer(layer: AnyLayer, form: Form) -> SplitLayer | None:
    """Return the parts of a layer with many weights, or None if the layer is computed at once.

    All parts must have the same C, so their templates must have equal variables.
    """
    if not isinstance(layer, Layer) or layer.kind not in KINDS or layer.batch != 1:
        return None
    count = count_parts(layer, form)
    if count == 1:
        return None
    channels = layer.out_channels // count
    parts = [take_channels(layer, n * channels, channels) for n in range(count)]
    if any(form.find_broken(part) or not form.is_for(part, form.features) for part in parts):
        return None
    packings = [form.pack_layer(part) for part in parts]
    if any(
        describe(p, packing) != describe(parts[0], packings[0])
        for p, packing in zip(parts, packings, strict=True)
    ):
        return None
    arrays, split = dict[str, Array](), []
    for name, first in packings[0].arrays.items():
        each = [packing.arrays[name] for packing in packings]
        if all(np.array_equal(first, one) for one in each) and name != "weights":
            arrays[name] = first
        else:
            arrays[name] = np.concatenate(each)
            split.append(name)
    return SplitLayer(count, parts[0], packings[0], arrays, tuple(split))


def count_parts(layer: Layer, form: Form) -> int:
    """Return the number of parts: the smallest with at most PART_BYTES, or else the largest."""
    size = form.pack_layer(layer).arrays["weights"].nbytes
    if size <= PART_BYTES:
        return 1
    outputs, count = layer.out_channels, 1
    for block in BLOCKS:
        counts = [
            n for n in range(1, outputs + 1) if outputs % n == 0 and outputs // n % block == 0
        ]
        small = [n for n in counts if size <= n * PART_BYTES]
        if small:
            return small[0]
        count = max([count, *counts])
    return count


def take_channels(layer: Layer, first: int, count: int) -> Layer:
    """Return a layer of some output channels."""
    taken, scaling = slice(first, first + count), layer.scaling
    offsets = scaling.offsets
    return replace(
        layer,
        out_channels=count,
        weights=layer.weights[taken],
        bias=layer.bias[taken],
        scaling=replace(
            scaling,
            mantissas=scaling.mantissas[taken],
            shifts=scaling.shifts[taken],
            factors=scaling.factors[taken],
            offsets=offsets[taken] if isinstance(offsets, np.ndarray) else offsets,
        ),
    )


def describe(part: Layer, packing: Packing) -> tuple[Any, ...]:
    """Return everything in which the parts of a layer must be equal."""
    arrays = {name: (array.dtype, array.size) for name, array in packing.arrays.items()}
    texts = (packing.choose_text(shared) for shared in (False, True))
    return (arrays, packing.record, packing.scratch, *texts, describe_layer(part, packing))
