"""Runs generated C under clang's sanitizers, with inputs that no careful program would pass."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.compile import compile_network
from firmwright.errors import UserError
from firmwright.ir.small_types import find_limits
from firmwright.ir.tensors import STRING, Tensor
from firmwright.models import FORMATS
from firmwright.project.network import Network
from firmwright.project.write import write_project
from firmwright.recipe.target import parse_target
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import Build, Platform, load_platform, load_toolchain
from firmwright.toolchain.project_folders import NETWORK
from tests.hammer.campaign import FindingError, run_campaign
from tests.hammer.networks import load_networks
from tests.networks.firmware import join_sources

HOST = load_platform("host")
PORTABLE = replace(HOST, features=())
"""MemorySanitizer does not know the vector instructions of x86-64's kernels."""

SANITIZERS = {
    "address": ("-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all"),
    "memory": ("-fsanitize=memory", "-fno-sanitize-recover=all"),
}
STRICT = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-O0")
SAMPLES = 24
SECONDS = 120

PROGRAM = """\
#include <stdio.h>
#include <stdlib.h>
#include "network.h"
#define READ(buffer, bytes) if (fread(buffer, 1, bytes, stdin) != (bytes)) return 2

/* Branches on each byte, which MemorySanitizer reports for a byte that nobody wrote. */
static unsigned count_set(const void *buffer, size_t bytes)
{{
    unsigned count = 0;
    for (size_t i = 0; i < bytes; i++) {{
        if (((const unsigned char *)buffer)[i] != 0) {{
            count++;
        }}
    }}
    return count;
}}

int main(void)
{{
    unsigned count = 0;
    network_context context;
    void *arena = aligned_alloc(64, {arena});
    if (network_init(&context, arena, NETWORK_WORKSPACE_SIZE) != 0) {{
        return 2;
    }}
    for (int sample = 0; sample < {samples}; sample++) {{
        void *in[] = {{ {inputs} }};
        void *out[] = {{ {outputs} }};
        const network_inputs inputs = {{ {given} }};
        network_outputs outputs = {{ {taken} }};
{reads}
        if (network_run(&context, &inputs, &outputs) != 0) {{
            return 2;
        }}
{counts}
        for (size_t i = 0; i < sizeof in / sizeof *in; i++) {{
            free(in[i]);
        }}
        for (size_t i = 0; i < sizeof out / sizeof *out; i++) {{
            free(out[i]);
        }}
    }}
    free(arena);
    printf("%u\\n", count);
    return 0;
}}
"""


class MemoryHammer:
    """Compiles networks with sanitizers, and runs them with hostile inputs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.networks = load_networks()

    def try_case(self, draw: random.Random) -> str:
        return self.check(draw.choice(sorted(self.networks)), draw.randrange(2**32))

    def check(self, name: str, seed: int) -> str:
        """Run a network under each sanitizer; FindingError with the first report."""
        model = self.networks[name]
        try:
            importer = FORMATS[model.format_name].load()
            module, interface = importer.import_model(model.load(), name, {})
        except UserError:
            return "refused"
        rounding = "tflite" if model.format_name == "tflite" else "onnx"

        def compile_for(platform: Platform) -> Network:
            mix = load_mix(parse_target("c"), platform, rounding)
            return replace(compile_network(module, interface, mix), caller_arena=True)

        try:
            host = compile_for(HOST)
            portable = compile_for(PORTABLE) if has_vectors(host) else host
        except UserError:
            return "refused"
        for sanitizer, network in (("address", host), ("memory", portable)):
            flags = SANITIZERS[sanitizer]
            try:
                compile_and_run(network, write_program(network), flags, seed, self.folder)
            except FindingError as finding:
                raise FindingError(f"{name}, {sanitizer} sanitizer: {finding}") from finding
        return "silent"


def has_vectors(network: Network) -> bool:
    """Return whether a kernel uses the vector instructions of x86-64."""
    kernels = network.kernels.kernels
    texts = [kernel.definitions or "" for kernel in kernels]
    texts += [file.text for kernel in kernels for file in kernel.files]
    return any("immintrin.h" in text for text in texts)


def compile_and_run(
    network: Network, text: str, flags: tuple[str, ...], seed: int, scratch: Path
) -> None:
    """Compile a program with a network's sources, and run it; FindingError if a sanitizer reports.

    ``flags`` are the flags of a sanitizer; ``seed`` draws the samples that the program reads.
    """
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        folder = Path(name)
        write_project(network, Build(load_toolchain("clang"), HOST), folder)
        program = folder / "hostile.c"
        program.write_text(text)
        sources = map(str, [program, *(folder / name for name in join_sources(folder, (NETWORK,)))])
        command = ["clang", *STRICT, *flags, f"-I{folder / 'network'}", *sources, "-lm"]
        run_program([*command, "-o", str(folder / "hostile")])
        inputs = b"".join(
            array.tobytes()
            for number in range(SAMPLES)
            for array in draw_hostile(network.interface.inputs, seed + number)
        )
        run_program([str(folder / "hostile")], inputs)


def run_program(command: list[str], given: bytes = b"") -> None:
    """Raise FindingError with the program's messages if it fails or is too slow."""
    try:
        ran = subprocess.run(
            command, input=given, capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise FindingError(f"{command[0]} runs longer than {SECONDS} s") from error
    if ran.returncode:
        report = ran.stderr.decode(errors="replace")
        raise FindingError(f"exit code {ran.returncode}\n{report[:2000]}")


def write_program(network: Network) -> str:
    """Return a program that runs the network on the samples of its standard input.

    Each input and output is a heap block with the exact size of the tensor.
    """
    tensors = network.interface.inputs, network.interface.outputs
    inputs, outputs = ([f"malloc({t.bytes})" for t in side] for side in tensors)
    reads = [f"        READ(in[{i}], {t.bytes}u);" for i, t in enumerate(tensors[0])]
    counts = [
        f"        count += count_set(out[{i}], {t.bytes}u);" for i, t in enumerate(tensors[1])
    ]
    return PROGRAM.format(
        arena="(NETWORK_WORKSPACE_SIZE + 64u) / 64u * 64u",
        samples=SAMPLES,
        inputs=", ".join(inputs),
        outputs=", ".join(outputs),
        given=", ".join(f"in[{i}]" for i in range(len(inputs))),
        taken=", ".join(f"out[{i}]" for i in range(len(outputs))),
        reads="\n".join(reads),
        counts="\n".join(counts),
    )


def draw_hostile(inputs: tuple[Tensor, ...], seed: int) -> Iterator[npt.NDArray[Any]]:
    """Yield an array for each input, in the firmware's types and with its shape.

    The kinds of numbers alternate with the seed: floats of any size, infinities and NaN, integers
    of the whole range, near the lengths of axes, and at the ends of their type.
    """
    random = np.random.default_rng(seed)
    lengths = [length for tensor in inputs for length in tensor.shape] or [1]
    for tensor in inputs:
        kind = int(random.integers(4))
        if tensor.dtype == "bool":
            yield random.integers(0, 2, tensor.shape).astype(bool)
        elif tensor.dtype.startswith("float"):
            yield draw_floats(random, tensor, kind)
        elif tensor.stated_dtype == STRING or "float" in tensor.stated_dtype:
            yield random.integers(0, 256, tensor.bytes, "uint8")
        else:
            yield draw_integers(random, tensor, kind, lengths)


def draw_floats(random: np.random.Generator, tensor: Tensor, kind: int) -> npt.NDArray[Any]:
    largest = float(np.finfo(tensor.dtype).max)
    special = [np.nan, np.inf, -np.inf, largest, -largest, 1e-42, -1e-42, 0.0, -0.0, 1.0, 5e9, -5e9]
    near = random.normal(0, 10.0 ** random.integers(-3, 4), tensor.shape)
    if kind == 0:
        return near.astype(tensor.dtype)
    drawn = random.choice(special, tensor.shape)
    share = (0.1, 0.5, 1.0)[kind - 1]
    return np.where(random.random(tensor.shape) < share, drawn, near).astype(tensor.dtype)


def draw_integers(
    random: np.random.Generator, tensor: Tensor, kind: int, lengths: list[int]
) -> npt.NDArray[Any]:
    limits = find_limits(tensor.stated_dtype)
    low, high = int(limits.min), int(limits.max)
    if kind == 0:
        return random.integers(low, high, tensor.shape, tensor.dtype, endpoint=True)
    near = [n + step for n in {0, *lengths} for step in (-1, 0, 1)]
    choices = [n for n in (*near, *(-n for n in near)) if low <= n <= high]
    if kind == 1:
        choices = [low, low + 1, high - 1, high]
    return random.choice(np.array(choices, tensor.dtype), tensor.shape)


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        return run_campaign(
            "tests.hammer.memory", MemoryHammer(Path(folder)).try_case, arguments, 100
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
