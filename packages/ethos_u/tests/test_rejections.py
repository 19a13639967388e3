"""The simulator rejects damaged and unsupported streams, and Vela rejects unsupported networks."""

import dataclasses
import os
import signal
import struct
from importlib.metadata import PackageNotFoundError
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from firmwright_ethos_u import compiler, vela
from firmwright_ethos_u.compiler import CompiledNetwork, compile_network
from firmwright_ethos_u.errors import StreamError, VelaError
from firmwright_ethos_u.stream import read_payload
from single import Array, binary, convolution, unary

from firmwright.device import UserError


@pytest.fixture(scope="module")
def compiled() -> CompiledNetwork:
    network, _ = convolution(np.random.default_rng(1), (6, 6, 20), 16, (3, 3))
    return compile_network(network, "ethos-u55-128", "shared_sram")


INPUT: Array = np.zeros((1, 6, 6, 20), np.int8)


def replace_word(compiled: CompiledNetwork, command: int, word: int) -> CompiledNetwork:
    """Replace a word of the first command with the given code."""
    _, words = read_payload(compiled.payload)
    header = compiled.payload[: -4 * len(words)]
    words[[entry & 0xFFFF for entry in words].index(command)] = word
    return dataclasses.replace(compiled, payload=header + struct.pack(f"<{len(words)}I", *words))


@pytest.mark.parametrize(
    ("command", "word", "message"),
    [
        (0x0107, 0x0007, "offset 0x54: unknown command 0x0007"),
        (0x0107, 0x0132, "offset 0x54: NPU_SET_DMA0_SIZE0 is not supported"),
        (0x0107, 0x0013, "offset 0x54: NPU_OP_PMU_MASK is not supported"),
        (0x0107, 0x0100, "NPU_OP_CONV reads register IFM_UPSCALE, which no command sets"),
        (0x0107, 0x00030107, "NPU_OP_CONV has an unknown upscaling mode (3)"),
        (0x0125, 0x00040125, "NPU_OP_CONV has an unsupported activation (type 4, clip range 0)"),
        (0x0124, 0x00020124, "NPU_OP_CONV has an unsupported ACC_FORMAT (2)"),
        (0x0105, 0x00020105, "NPU_OP_CONV has an unsupported IFM_PRECISION"),
        (0x0105, 0x10010105, "NPU_OP_CONV sets reserved bits of IFM_PRECISION"),
        (0x0114, 0x40010114, "NPU_OP_CONV has an unsupported rounding mode (1)"),
        (0x0114, 0xC0010114, "NPU_OP_CONV has an unsupported rounding mode (3)"),
        (0x011F, 0x0000011F, "NPU_OP_CONV writes into region 0, which is read-only"),
        (0x010F, 0x0005010F, "NPU_OP_CONV uses region 5; the regions are [0, 1]"),
        (0x4005, 0x00014005, "of region 1 (IFM), which has 1296"),
    ],
)
def test_command(compiled: CompiledNetwork, command: int, word: int, message: str) -> None:
    with pytest.raises(StreamError) as error:
        replace_word(compiled, command, word).run([INPUT])
    assert message in str(error.value)


OUTPUT_DEPTH, BLOCK_DEPTH = 0x0113, 0x0117


def test_output_channels_of_convolution(compiled: CompiledNetwork) -> None:
    with pytest.raises(StreamError, match="bytes of scales; expected 655360"):
        replace_word(compiled, OUTPUT_DEPTH, 0xFFFF0000 | OUTPUT_DEPTH).run([INPUT])


def test_output_channels_of_sum() -> None:
    shapes = ((1, 4, 4, 8), (1, 4, 4, 8))
    network, inputs = binary(np.random.default_rng(1), "ADD", shapes, "int8", (0.04, 0.04, 0.08))
    compiled = compile_network(network, "ethos-u55-128", "shared_sram")
    with pytest.raises(StreamError, match="has 8 input channels and 65536 output channels"):
        replace_word(compiled, OUTPUT_DEPTH, 0xFFFF0000 | OUTPUT_DEPTH).run(inputs)


def test_block_of_two_cores() -> None:
    network, inputs = convolution(np.random.default_rng(1), (6, 6, 20), 16, (3, 3))
    compiled = compile_network(network, "ethos-u65-512", "shared_sram")
    with pytest.raises(StreamError, match="has a block of 1 output channels for 2 cores"):
        replace_word(compiled, BLOCK_DEPTH, BLOCK_DEPTH).run(inputs)


def test_region_is_too_small(compiled: CompiledNetwork) -> None:
    small = dataclasses.replace(compiled, constants=compiled.constants[:64])
    with pytest.raises(StreamError, match=r"accesses bytes .* of region 0, which has 64"):
        small.run([INPUT])


def test_damaged_weights(compiled: CompiledNetwork) -> None:
    damaged = dataclasses.replace(compiled, constants=bytes(len(compiled.constants)))
    with pytest.raises(StreamError, match="NPU_OP_CONV has damaged weights"):
        damaged.run([INPUT])


@pytest.mark.parametrize("length", [0, 4, 16, -4, -1])
def test_truncated_payload(compiled: CompiledNetwork, length: int) -> None:
    with pytest.raises(StreamError, match="driver payload"):
        dataclasses.replace(compiled, payload=compiled.payload[:length]).run([INPUT])


def test_hardware_function() -> None:
    ports = ((0.0003, 0), (1 / 32768, 0))
    network, inputs = unary(np.random.default_rng(1), "TANH", "int16", ports)
    with pytest.raises(StreamError, match=r"NPU_OP_POOL has an unsupported activation \(type 3"):
        compile_network(network, "ethos-u55-128", "shared_sram").run(inputs)


def test_vela_rejects() -> None:
    ports = ((0.05, 0), (0.05, 0))
    network, _ = unary(np.random.default_rng(1), "FLOOR", "float32", ports)
    with pytest.raises(VelaError, match="Vela rejects the network"):
        compile_network(network, "ethos-u55-128", "shared_sram")


def test_vela_crashes() -> None:
    network, _ = convolution(np.random.default_rng(1), (6, 6, 20), 16, (3, 3))
    damaged = network[:18] + bytes([network[18] ^ 0xFF]) + network[19:]
    with pytest.raises(VelaError, match="Vela fails: it ended with SIG"):
        compile_network(damaged, "ethos-u55-128", "shared_sram")


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (PackageNotFoundError(), "ethos-u-vela is not installed; expected 5.2.0"),
        ("4.0.0", "ethos-u-vela has the version 4.0.0; expected 5.2.0"),
    ],
)
def test_other_vela(found: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vela, "version", Mock(side_effect=[found]))
    with pytest.raises(UserError, match=message) as error:
        vela.check_vela()
    assert str(error.value).endswith("`python -m pip install ethos-u-vela==5.2.0`")


def test_system_that_ends_vela_does_not_move_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "run_vela", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(UserError, match="SIGKILL; free memory, and build again") as error:
        compiler.compile_network(b"", "ethos-u55-128", "shared_sram")
    assert not isinstance(error.value, VelaError)
