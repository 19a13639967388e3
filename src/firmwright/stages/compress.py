"""Compresses the constants of the device ``c`` if the recipe requests compression."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from firmwright.compression.choice import (
    Encodings,
    LimitError,
    choose_for_limit,
    choose_smallest,
)
from firmwright.compression.coders import LOOK_UP, Array, Encoded
from firmwright.compression.decoding import decode_in_kernel, encode_arrays
from firmwright.errors import DiagnosticError, suggest_known
from firmwright.ir.kernels import Kernel, Kernels
from firmwright.ir.regions import Partition
from firmwright.pipeline.job import Job
from firmwright.planning.pinned_memories import is_named
from firmwright.recipe.recipe import CompressOptions
from firmwright.targets import Device

DEVICE = "c"
"""The device whose constants are compressed, because other devices do not run the decoders."""


def choose_encodings(
    job: Job,
    partition: Partition,
    kernels: Kernels,
    arrays: Mapping[str, Array],
    looked_up: Collection[str] = (),
) -> Encodings:
    """Return the encodings of constants; {} if the recipe does not compress constants.

    The kernels of the regions ``looked_up`` already read their weights from a table. If there are
    such regions, no other kernel reads its weights from a table.

    Raises DiagnosticError if a pattern matches no layer, or if the limit cannot be reached.
    """
    options = job.recipe.compress
    if options is None:
        return {}
    names = find_constants(job, options, partition, kernels)
    kept = {p.tensor for k in kernels.kernels if k.region in looked_up for p in k.weights}
    tables = {} if looked_up else list_tables(kernels, arrays)
    candidates = {name: arrays[name] for name in names if name not in kept}
    return choose(job, options, arrays, candidates, tables)


def list_tables(kernels: Kernels, arrays: Mapping[str, Array]) -> Encodings:
    """Return the encodings of weights that a variant of their only kernel reads from a table."""
    readers = Counter(p.tensor for kernel in kernels.kernels for p in kernel.weights)
    none = np.zeros(0, np.uint8)
    return {
        p.tensor: Encoded(
            LOOK_UP, none, k.table.instructions, arrays[p.tensor].nbytes - k.table.bytes, 0
        )
        for k in kernels.kernels
        for p in k.weights
        if k.table and p.name == "weights" and readers[p.tensor] == 1
    }


def find_looked_up(kernels: Kernels, encodings: Encodings) -> dict[str, Encoded]:
    """Return the encodings of the regions whose C reads weights from a table."""
    return {
        kernel.region: encoded
        for kernel in kernels.kernels
        for p in kernel.weights
        if (encoded := encodings.get(p.tensor)) and encoded.coder is LOOK_UP
    }


def use_tables(
    mix: Sequence[Device], kernels: Kernels, regions: Collection[str]
) -> tuple[Device, ...]:
    """Return devices that choose the variants that read tables, for these regions."""
    names = {k.region: k.table.name for k in kernels.kernels if k.table and k.region in regions}
    contexts = (replace(d.context, variants={**d.context.variants, **names}) for d in mix)
    return tuple(replace(d, context=c) for d, c in zip(mix, contexts, strict=True))


def find_needless_parts(kernels: Kernels, encodings: Encodings) -> set[str]:
    """Return the regions that are computed in parts, but whose weights are not encoded.

    Parts reduce the memory for decoded weights. Other constants of a layer are small.
    """
    return {
        kernel.region
        for kernel in kernels.kernels
        if kernel.parts
        and not any(p.name == "weights" and p.tensor in encodings for p in kernel.weights)
    }


def encode_constants(
    job: Job,
    kernels: Kernels,
    arrays: dict[str, Array],
    encodings: Encodings,
    looked_up: Mapping[str, Encoded],
) -> tuple[Kernels, dict[str, Array]]:
    """Return kernels that decode constants, and the arrays, in which these constants are encoded.

    The weights of the regions ``looked_up`` are already numbers of a table. Adds a note with the
    saved bytes.
    """
    if job.recipe.compress is None:
        return kernels, arrays
    encoded = encode_arrays(arrays, encodings)
    changed = tuple(
        add_table_note(kernel, looked_up[kernel.region])
        if kernel.region in looked_up
        else decode_in_kernel(kernel, encodings)
        for kernel in kernels.kernels
    )
    job.note(summarize(arrays, encoded, [*encodings.values(), *looked_up.values()]))
    return Kernels(changed), encoded


def add_table_note(kernel: Kernel, encoded: Encoded) -> Kernel:
    size = sum(p.bytes for p in kernel.weights if p.name in ("weights", "values"))
    sizes = f"{size:,} of {size + encoded.saved:,} bytes"
    cost = f"about {encoded.instructions:,} instructions"
    return replace(
        kernel, note=f"{kernel.note} weights: {sizes} by {encoded.coder.sentence}, {cost}."
    )


def find_constants(
    job: Job, options: CompressOptions, partition: Partition, kernels: Kernels
) -> list[str]:
    """Return the constants that only the recipe's layers of the device ``c`` read."""
    regions = [region for region in partition.regions if not region.view]
    for number, pattern in enumerate(options.layers):
        if not any(is_named(region, pattern) for region in regions):
            known = {name for region in regions for name in region.sources}
            message = f"no layer named '{pattern}'{suggest_known(pattern, known)}"
            pointer = ("compress", "layers", number)
            raise DiagnosticError([job.recipe.make_diagnostic(pointer, message)])
    chosen = {
        region.name
        for region in regions
        if region.device == DEVICE and any(is_named(region, p) for p in options.layers)
    }
    read = {p.tensor for k in kernels.kernels if k.region in chosen for p in k.weights}
    others = {p.tensor for k in kernels.kernels if k.region not in chosen for p in k.weights}
    return sorted(read - others)


def choose(
    job: Job,
    options: CompressOptions,
    arrays: Mapping[str, Array],
    candidates: Mapping[str, Array],
    tables: Encodings,
) -> Encodings:
    if options.flash is None:
        return choose_smallest(candidates, tables)
    excess = sum(array.nbytes for array in arrays.values()) - options.flash
    try:
        return choose_for_limit(candidates, excess, tables)
    except LimitError as error:
        least = options.flash + error.missing
        message = (
            f"the constants need at least {least:,} bytes (limit {options.flash:,}); raise the "
            "limit, or use weights of fewer bits"
        )
        wrong = job.recipe.make_diagnostic(("compress", "flash"), message)
        raise DiagnosticError([wrong]) from None


def summarize(
    arrays: Mapping[str, Array], encoded: Mapping[str, Array], chosen: Sequence[Encoded]
) -> str:
    """Return the note about the ``chosen`` encodings. ``arrays`` have tables instead of weights."""
    after = sum(array.nbytes for array in encoded.values())
    before = after + sum(each.saved for each in chosen)
    instructions = sum(each.instructions for each in chosen)
    return (
        f"compress: {len(chosen)} of {len(arrays)} constants are encoded; constants need "
        f"{after:,} of {before:,} bytes, and decoding about {instructions:,} instructions"
    )
