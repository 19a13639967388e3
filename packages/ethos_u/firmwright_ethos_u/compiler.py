"""Compiles a TFLite network with Vela to a command stream, constants and sizes of memories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

import numpy as np
from ethosu import regor

from firmwright.device import UserError, run_in_copy
from firmwright_ethos_u.constraints import find_broken_constraint
from firmwright_ethos_u.dense import find_dense, round_once
from firmwright_ethos_u.errors import VelaError
from firmwright_ethos_u.hardware import HARDWARE, MEMORY_MODES
from firmwright_ethos_u.memory import Array, Bytes
from firmwright_ethos_u.simulator import simulate

OPTIONS = "[compiler]\noutput_format=Raw\ncop_format=COP1\nenable_db=true\n"


@dataclass(frozen=True)
class Port:
    """The location of an input or an output."""

    region: int
    address: int
    size: int
    element_size: int
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class CompiledNetwork:
    """The data that Arm's driver needs to run a network."""

    payload: bytes
    """The actions of the driver and the command stream."""
    constants: bytes
    constants_region: int
    scratch: dict[int, int]
    """The number of bytes of each writable region."""
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    estimated_cycles: int | None
    """Vela's estimate, or None if the model is a file from Vela."""

    def run(self, inputs: Sequence[Array]) -> list[Bytes]:
        """Simulate the network, and return the bytes of each output.

        Raises StreamError if the simulator rejects the command stream. Raises ValueError if the
        size of an input is wrong.
        """
        regions = {region: np.zeros(size, np.uint8) for region, size in self.scratch.items()}
        for port, values in zip(self.inputs, inputs, strict=True):
            data = np.frombuffer(values.tobytes(), np.uint8)
            if data.size != port.size:
                raise ValueError(f"an input has {data.size} bytes; expected {port.size}")
            regions[port.region][port.address : port.address + port.size] = data
        regions[self.constants_region] = np.frombuffer(self.constants, np.uint8)
        simulate(self.payload, regions, {self.constants_region})
        return [
            regions[port.region][port.address : port.address + port.size] for port in self.outputs
        ]


def compile_network(network: bytes, accelerator: str, memory_mode: str) -> CompiledNetwork:
    """Compile a TFLite network whose operators all run on the accelerator.

    Raises VelaError if Vela rejects the network or crashes. Raises UserError if the system kills
    Vela, because the network is not the reason.
    """
    hardware = HARDWARE[accelerator]
    settings = files("ethosu").joinpath("config_files/Arm/vela.ini").read_text(encoding="utf-8")
    system = (
        f"[architecture]\nmacs={hardware.macs // hardware.cores}\ncores={hardware.cores}\n"
        f"[vela]\nsystem_config_name={hardware.system}\n"
        f"memory_mode_name={MEMORY_MODES[memory_mode]}\n{settings}"
    )
    try:
        compiled, dense = run_in_copy("Vela fails", run_vela, hardware.family, network, system)
    except VelaError:
        raise
    except UserError as error:
        if "SIGKILL" in str(error):
            raise UserError(f"{error}; free memory, and build again") from None
        raise VelaError(str(error)) from None
    return replace(compiled, payload=round_once(compiled.payload, dense))


def run_vela(family: str, network: bytes, system: str) -> tuple[CompiledNetwork, set[int]]:
    """Compile a network in this process. A damaged network can crash the process.

    The second result contains the offsets of the dense layers in the command stream.
    """
    try:
        compiled = regor.compile(family, network, "TFLITE", system, options=OPTIONS)
    except Exception as error:
        reason = find_broken_constraint(network) or str(error)
        raise VelaError(f"Vela rejects the network: {' '.join(reason.split())}") from error
    scratch = (compiled.scratch, compiled.scratch_fast)
    found = CompiledNetwork(
        payload=bytes(compiled.command_stream),
        constants=bytes(compiled.read_only.data),
        constants_region=compiled.read_only.region,
        scratch={memory.region: memory.size for memory in scratch if memory.size},
        inputs=tuple(read_port(tensor) for tensor in compiled.inputs),
        outputs=tuple(read_port(tensor) for tensor in compiled.outputs),
        estimated_cycles=compiled.perf_report.npuCycles,
    )
    return found, find_dense(compiled.opt_database)


def read_port(tensor: Any) -> Port:
    shape = tuple(tensor.shape)
    size = tensor.element_size
    return Port(tensor.region, tensor.address, tensor.size, size, shape, f"int{8 * size}")
