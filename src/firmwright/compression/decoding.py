"""Rewrites kernels to decode their constants into scratch before the computation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from firmwright.codegen.templates import make_environment, render
from firmwright.compression.choice import Encodings
from firmwright.compression.coders import JOIN, Array, Encoded
from firmwright.ir.kernels import (
    Kernel,
    Parameter,
    SourceFile,
    StoredWeights,
    name_part,
)

FOLDER = "c/compression"
STATE = "struct code_position "
STATE_FILE = "code_position"


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
    calls = {p.name: write_calls(kernel, p, encodings[p.tensor]) for p in encoded}
    states = [f"struct code_position {p.name}_from = {{.code = {p.name}_coded}};" for p in encoded]
    sentences = [describe(p, encodings[p.tensor]) for p in encoded]
    functions = {name for p in encoded for name in encodings[p.tensor].functions}
    files = [make_state(), *(file for name in sorted(functions) for file in make_files(name))]
    decoded = (make_scratch(kernel, p) for p in encoded)
    return replace(
        kernel,
        weights=tuple(
            make_code(p, encodings[p.tensor]) if p in encoded else p for p in kernel.weights
        ),
        scratch=(*kernel.scratch, *decoded),
        body="".join(f"    {line}\n" for line in states) + write_body(kernel, calls),
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


def count_parts(kernel: Kernel, weights: Parameter) -> int:
    return kernel.parts.count if kernel.parts and weights.name in kernel.parts.split else 1


def make_scratch(kernel: Kernel, weights: Parameter) -> Parameter:
    """Return the scratch buffer for decoded weights: all weights, or the weights of one part."""
    count = count_parts(kernel, weights)
    return replace(
        weights,
        name=weights.name if count == 1 else name_part(weights),
        elements=weights.elements // count,
        tensor=f"{kernel.region}_{weights.name}_decoded",
        alignment=0,
    )


def write_body(kernel: Kernel, calls: Mapping[str, Sequence[str]]) -> str:
    split = kernel.parts.split if kernel.parts else ()
    first = [line for name, lines in calls.items() if name not in split for line in lines]
    loop = kernel.parts.write_loop(kernel.weights, calls) if kernel.parts else kernel.body
    return "".join(f"    {line}\n" for line in first) + loop


def write_calls(kernel: Kernel, parameter: Parameter, encoded: Encoded) -> list[str]:
    """Return the C lines that decode an array, or the next part of it."""
    to = make_scratch(kernel, parameter)
    bytes_ = to.name if to.dtype == "uint8" else f"(uint8_t *){to.name}"
    lines = [f"{encoded.coder.name}(&{parameter.name}_from, {bytes_}, {to.bytes});"]
    if encoded.joined:
        lines.append(f"{JOIN}({bytes_}, {to.bytes}, {encoded.joined});")
    return lines


def describe(parameter: Parameter, encoded: Encoded) -> str:
    sizes = f"{encoded.code.size:,} of {parameter.bytes:,} bytes"
    cost = f"about {encoded.instructions:,} instructions"
    return f"{parameter.name}: {sizes} by {encoded.coder.sentence}, {cost}."


def make_files(function: str) -> tuple[SourceFile, SourceFile]:
    environment = make_environment()
    source = render(environment, f"{FOLDER}/{function}.c.j2", {}).strip("\n")
    prototype = next(line for line in source.splitlines() if line.startswith("void "))
    text = f"{prototype};"
    if STATE in prototype:
        text = f'#include "{STATE_FILE}.h"\n\n{text}'
    header = render(environment, "c/layers/header.j2", {"name": function, "text": text})
    return (
        SourceFile(f"{function}.h", header.strip("\n") + "\n"),
        SourceFile(f"{function}.c", f"{source}\n"),
    )


def make_state() -> SourceFile:
    """Return the header of the struct in which a decoder keeps its position."""
    environment = make_environment()
    struct = render(environment, f"{FOLDER}/{STATE_FILE}.h.j2", {}).strip("\n")
    text = f"#include <stddef.h>\n\n{struct}"
    header = render(environment, "c/layers/header.j2", {"name": STATE_FILE, "text": text})
    return SourceFile(f"{STATE_FILE}.h", header.strip("\n") + "\n")
