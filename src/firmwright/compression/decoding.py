"""Rewrites kernels to decode their constants into scratch before the computation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from firmwright.codegen.templates import make_environment, render
from firmwright.compression.choice import Encodings
from firmwright.compression.coders import Array, Encoded
from firmwright.ir.kernels import Kernel, Parameter, SourceFile, StoredWeights

FOLDER = "c/compression"
JOIN = "join_digits"


def encode_arrays(arrays: Mapping[str, Array], encodings: Encodings) -> dict[str, Array]:
    """Return the arrays of the firmware. Codes replace arrays that have an encoding."""
    return {n: encodings[n].code if n in encodings else a for n, a in arrays.items()}


def decode_in_kernel(kernel: Kernel, encodings: Encodings) -> Kernel:
    """Return a kernel that decodes its encoded constants when it runs.

    A decoded array has the constant's name in C. Therefore the body of the kernel is unchanged.
    """
    encoded = [p for p in kernel.weights if p.tensor in encodings]
    if not encoded:
        return kernel
    calls = [line for p in encoded for line in write_calls(p, encodings[p.tensor])]
    sentences = [describe(p, encodings[p.tensor]) for p in encoded]
    functions = {encodings[p.tensor].coder.name for p in encoded}
    functions |= {JOIN for p in encoded if encodings[p.tensor].joined}
    files = [file for name in sorted(functions) for file in make_files(name)]
    decoded = (replace(p, tensor=f"{kernel.region}_{p.name}_decoded") for p in encoded)
    return replace(
        kernel,
        weights=tuple(
            make_code(p, encodings[p.tensor]) if p in encoded else p for p in kernel.weights
        ),
        scratch=(*kernel.scratch, *(replace(p, alignment=0) for p in decoded)),
        body="".join(f"    {line}\n" for line in calls) + kernel.body,
        headers=(*kernel.headers, *(f.name for f in files if f.name.endswith(".h"))),
        files=(*kernel.files, *files),
        note=" ".join(filter(None, (kernel.note, *sentences))),
        stored=kernel.stored and reduce_weights(kernel.stored, encoded, encodings),
    )


def reduce_weights(
    stored: StoredWeights, encoded: Sequence[Parameter], encodings: Encodings
) -> StoredWeights:
    saved = sum(encodings[p.tensor].saved for p in encoded if p.name.startswith("weights"))
    return replace(stored, bytes=stored.bytes - saved)


def make_code(parameter: Parameter, encoded: Encoded) -> Parameter:
    return Parameter(f"{parameter.name}_coded", "uint8", encoded.code.size, parameter.tensor)


def write_calls(parameter: Parameter, encoded: Encoded) -> list[str]:
    bytes_ = parameter.name if parameter.dtype == "uint8" else f"(uint8_t *){parameter.name}"
    lines = [f"{encoded.coder.name}({parameter.name}_coded, {bytes_}, {parameter.bytes});"]
    if encoded.joined:
        size = parameter.bytes // parameter.elements
        lines.append(f"{JOIN}({bytes_}, {parameter.bytes}, {size});")
    return lines


def describe(parameter: Parameter, encoded: Encoded) -> str:
    sizes = f"{encoded.code.size:,} of {parameter.bytes:,} bytes"
    return f"{parameter.name}: {sizes} by {encoded.coder.sentence}."


def make_files(function: str) -> tuple[SourceFile, SourceFile]:
    environment = make_environment()
    source = render(environment, f"{FOLDER}/{function}.c.j2", {}).strip("\n")
    prototype = next(line for line in source.splitlines() if line.startswith("void "))
    header = render(environment, "c/layers/header.j2", {"name": function, "text": f"{prototype};"})
    return (
        SourceFile(f"{function}.h", header.strip("\n") + "\n"),
        SourceFile(f"{function}.c", f"{source}\n"),
    )
