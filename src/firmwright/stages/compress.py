"""Compresses the constants of the device ``c`` if the recipe requests compression."""

from __future__ import annotations

from collections.abc import Mapping

from firmwright.compression.choice import (
    Encodings,
    LimitError,
    choose_for_limit,
    choose_smallest,
)
from firmwright.compression.coders import Array
from firmwright.compression.decoding import decode_in_kernel, encode_arrays
from firmwright.errors import DiagnosticError, suggest_known
from firmwright.ir.kernels import Kernels
from firmwright.ir.regions import Partition
from firmwright.pipeline.job import Job
from firmwright.planning.pinned_memories import is_named
from firmwright.recipe.recipe import CompressOptions

DEVICE = "c"
"""The device whose constants are compressed, because other devices do not run the decoders."""


def choose_encodings(
    job: Job, partition: Partition, kernels: Kernels, arrays: Mapping[str, Array]
) -> Encodings:
    """Return the encodings of constants; {} if the recipe does not compress constants.

    Raises DiagnosticError if a pattern matches no layer, or if the limit cannot be reached.
    """
    options = job.recipe.compress
    if options is None:
        return {}
    return choose(job, options, arrays, find_constants(job, options, partition, kernels))


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
    job: Job, kernels: Kernels, arrays: dict[str, Array], encodings: Encodings
) -> tuple[Kernels, dict[str, Array]]:
    """Return kernels that decode constants, and the arrays, in which these constants are encoded.

    Adds a note with the saved bytes.
    """
    if job.recipe.compress is None:
        return kernels, arrays
    encoded = encode_arrays(arrays, encodings)
    changed = tuple(decode_in_kernel(kernel, encodings) for kernel in kernels.kernels)
    job.note(summarize(arrays, encoded, encodings))
    return Kernels(changed), encoded


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
    job: Job, options: CompressOptions, arrays: Mapping[str, Array], names: list[str]
) -> Encodings:
    candidates = {name: arrays[name] for name in names}
    if options.flash is None:
        return choose_smallest(candidates)
    excess = sum(array.nbytes for array in arrays.values()) - options.flash
    try:
        return choose_for_limit(candidates, excess)
    except LimitError as error:
        least = options.flash + error.missing
        message = (
            f"the constants need at least {least:,} bytes (limit {options.flash:,}); raise the "
            "limit, or use weights of fewer bits"
        )
        wrong = job.recipe.make_diagnostic(("compress", "flash"), message)
        raise DiagnosticError([wrong]) from None


def summarize(
    arrays: Mapping[str, Array], encoded: Mapping[str, Array], encodings: Encodings
) -> str:
    before, after = (sum(array.nbytes for array in each.values()) for each in (arrays, encoded))
    instructions = sum(each.instructions for each in encodings.values())
    return (
        f"compress: {len(encodings)} of {len(arrays)} constants are encoded; constants need "
        f"{after:,} of {before:,} bytes, and decoding about {instructions:,} instructions"
    )
