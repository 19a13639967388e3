"""Defines the cores whose RTL runs firmware.

Each core also has a file ``<emulator>.h``, which connects its bus to the simulated machine and
reports the retired instructions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

IN_UNICORN = ("rv32ic", "rv32imc")
"""The architectures whose instructions unicorn supports."""


@dataclass(frozen=True)
class RtlCore:
    """A core's RTL, and the choices that its simulator needs.

    ``emulator`` is the name of the emulator. ``version`` is the version of ``package`` that
    firmwright's tests use. ``folder`` is the folder of the RTL in the Python module of the package.

    ``listed`` is a file of ``folder`` that lists the RTL in the order of the compilation. The files
    after ``last`` are test benches. ``variables`` are the variables in this list, with their
    folders. ``omitted`` are listed files that the simulator does not need. Without a list,
    ``files`` are the RTL. ``includes`` are the folders of included files.

    ``parameters`` are the RTL's parameters by architecture. ``observed`` are the signals that the
    simulator reads, by module.
    """

    name: str
    emulator: str
    package: str
    version: str
    folder: str
    top: str
    parameters: Mapping[str, tuple[str, ...]]
    observed: Mapping[str, tuple[str, ...]]
    files: tuple[str, ...] = ()
    listed: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    omitted: tuple[str, ...] = ()
    last: str = ""
    includes: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        """The Python module of the package."""
        return self.package.replace("-", "_")


CV32E40P = RtlCore(
    name="CV32E40P",
    emulator="cv32e40p",
    package="pythondata-cpu-cv32e40p",
    version="1.0.1.post1909",
    folder="system_verilog",
    top="cv32e40p_top",
    listed="cv32e40p_manifest.flist",
    variables={"DESIGN_RTL_DIR": "rtl"},
    omitted=("cv32e40p_tb_wrapper.sv", "cv32e40p_tracer_pkg.sv", "cv32e40p_tracer.sv"),
    includes=("rtl/include", "bhv", "bhv/include"),
    parameters={"rv32ic": (), "rv32imc": (), "rv32imc_xcv": ("COREV_PULP=1",)},
    observed={
        "cv32e40p_core": ("pc_id", "instr_valid_id", "csr_save_cause", "csr_cause"),
        "cv32e40p_id_stage": ("minstret", "branch_taken_ex", "load_stall", "jr_stall"),
        "cv32e40p_register_file": ("mem",),
    },
)

# The configuration `maxperf` of ibex_configs.yaml, with registers as an array, which the simulator
# can read. The values of RV32M and RegFile are from rtl/ibex_pkg.sv.
IBEX_MAXPERF = ("RV32M=3", "BranchTargetALU=1", "WritebackStage=1", "RegFile=1")

IBEX = RtlCore(
    name="Ibex",
    emulator="ibex",
    package="pythondata-cpu-ibex",
    version="0.0.post2937",
    folder="system_verilog",
    top="ibex_top",
    listed="dv/uvm/core_ibex/ibex_dv.f",
    variables={"PRJ_DIR": ".", "LOWRISC_IP_DIR": "vendor/lowrisc_ip"},
    omitted=("ibex_tracer_pkg.sv", "ibex_tracer.sv"),
    last="ibex_top.sv",
    includes=("rtl", "vendor/lowrisc_ip/ip/prim/rtl", "vendor/lowrisc_ip/dv/sv/dv_utils"),
    parameters=dict.fromkeys(IN_UNICORN, IBEX_MAXPERF),
    observed={
        "ibex_core": ("pc_id", "instr_valid_id", "instr_id_done", "csr_save_cause", "exc_cause",
                      "perf_dside_wait"),
        "ibex_register_file_fpga": ("mem",),
    },
)  # fmt: skip

# The parameters of the Dhrystone benchmark in the core's README. The core has no register
# mtvec. With ENABLE_PCPI, the simulator accepts the write to mtvec in the start-up code.
PICORV32_DHRYSTONE = ("ENABLE_FAST_MUL=1", "ENABLE_DIV=1", "BARREL_SHIFTER=1")

PICORV32 = RtlCore(
    name="PicoRV32",
    emulator="picorv32",
    package="pythondata-cpu-picorv32",
    version="1.0.post218",
    folder="verilog",
    top="picorv32",
    files=("picorv32.v",),
    parameters=dict.fromkeys(
        IN_UNICORN, (*PICORV32_DHRYSTONE, "COMPRESSED_ISA=1", "ENABLE_PCPI=1")
    ),
    observed={
        "picorv32": ("dbg_insn_addr", "dbg_valid_insn", "launch_next_insn", "cpu_state", "cpuregs")
    },
)
