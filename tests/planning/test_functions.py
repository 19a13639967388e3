"""The steps of a recurrent layer share one set of weights and one set of functions."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from firmwright.emulator import run_firmware
from firmwright.models.onnx.importer import run_reference
from firmwright.toolchain import Build, load_platform, load_toolchain
from firmwright.verify.protocol import decode_outputs, encode_samples
from tests.networks.firmware import link_network, lowered
from tests.networks.onnx_models import graph, node, value

STEPS, INPUTS, HIDDEN = 6, 5, 8


def make_recurrent(kind: str, gates: int) -> tuple[bytes, int]:
    """Return a network of one recurrent layer, and the bytes of its weights."""
    random = np.random.default_rng(0)
    constants: dict[str, npt.NDArray[np.float32]] = {
        name: random.normal(0, 0.4, shape).astype("float32")
        for name, shape in (
            ("w", (1, gates * HIDDEN, INPUTS)),
            ("r", (1, gates * HIDDEN, HIDDEN)),
            ("b", (1, 2 * gates * HIDDEN)),
        )
    }
    layer = node(kind, ["x", "w", "r", "b"], ["y"], hidden_size=HIDDEN)
    ends = [value("x", [STEPS, 1, INPUTS])], [value("y", [STEPS, 1, 1, HIDDEN])]
    data = graph([layer], *ends, constants, 17).SerializeToString()
    return data, sum(array.nbytes for array in constants.values())


@pytest.mark.needs("qemu-system-riscv32")
@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3)])
def test_each_step_calls_the_same_functions(tmp_path: Path, kind: str, gates: int) -> None:
    data, weight_bytes = make_recurrent(kind, gates)
    network = lowered(data, platform="rv32-bare")
    functions = network.plan.name_functions(network.kernels, "network")
    assert len(set(functions.values())) < len(functions) / 3
    build = Build(load_toolchain("zig"), load_platform("rv32-bare"))
    elf = link_network(network, build, tmp_path, tmp_path / "cache")
    project = tmp_path / "sources/network"
    texts = [path.read_text(encoding="utf-8") for path in project.glob("network_region*.c")]
    written = re.findall(r"^void (network_region_\w+)\(", "\n".join(texts), re.MULTILINE)
    assert sorted(written) == sorted(set(functions.values()))
    # Forms pack them in blocks of four; the rest are offsets of the steps in the sequence.
    assert weight_bytes <= sum(a.nbytes for a in network.weights.values()) < 1.5 * weight_bytes
    samples = [{"x": np.random.default_rng(s).normal(0, 1, (STEPS, 1, INPUTS)).astype("float32")}
               for s in (1, 2)]  # fmt: skip
    given = encode_samples(network.interface.inputs, samples)
    run = given, "network_run", 10**9, tuple(functions.values())
    ran = run_firmware(elf, build.platform, "unicorn", *run)
    found = decode_outputs(ran.console, network.interface.outputs, 2, ran.exit_code)
    for ours, theirs in zip(found, run_reference(data, samples).outputs, strict=True):
        np.testing.assert_allclose(ours[0], theirs[0], 1e-5, 1e-6)
    # Each call counts for its region; QEMU's counter shows the same numbers.
    assert all(ran.by_part)
    if kind == "GRU":
        counted = run_firmware(elf, build.platform, "qemu", *run)
        assert counted.by_part == ran.by_part
