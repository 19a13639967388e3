"""Firmware on a connected board: QEMU with a serial line and a debugger, or a computer with ssh."""

from __future__ import annotations

import getpass
import os
import pty
import re
import shutil
import socket
import subprocess
import sys
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import numpy as np
import pytest
import yaml

from firmwright.emulator import run_firmware
from firmwright.errors import UserError
from firmwright.hardware.access import BoardAccess, SerialPort
from firmwright.hardware.board_run import run_on_board
from firmwright.toolchain import load_platform
from tests.e2e.conftest import Repository, new_repository

QEMU = ("qemu-system-arm", "-machine", "mps2-an386", "-display", "none", "-monitor", "none",
        "-semihosting-config", "enable=on,target=native")  # fmt: skip
GDB = ["gdb-multiarch", "-batch", "-nx"]
SAMPLES = [[image.tobytes()] for image in np.load("examples/digits/inputs.npz")["image"][:3]]

EYES = "networks: {left: digits.yaml, right: digits.yaml}\n"

Corrupt = Callable[[bytes], bytes]
"""A function that a line applies to the board's output; an empty result closes the line."""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository whose network was built for a Cortex-M4 and for this machine."""
    repository = new_repository(tmp_path_factory.mktemp("boards"))
    repository.build("recipe=digits.yaml", "platform=cortex-m4-bare")
    return repository


@pytest.fixture
def firmware(repository: Repository) -> Path:
    return repository.folder / "build/digits/cortex-m4-bare/firmware"


def find_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def wait_for(port: int) -> None:
    for _ in range(100):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.1)
    raise AssertionError(f"nothing listens at {port}")


@contextmanager
def running(*command: object, console: int | None = None) -> Iterator[subprocess.Popen[str]]:
    """Run a program, with this file as its console, or with a pipe for its output."""
    words, printed = [str(word) for word in command], console or subprocess.PIPE
    with subprocess.Popen(
        words, stdin=console, stdout=printed, stderr=subprocess.STDOUT, text=True
    ) as p:
        try:
            yield p
        finally:
            p.kill()


@pytest.mark.needs("qemu-system-arm", "gdb-multiarch")
def test_a_debugger_flashes_and_a_serial_line_answers(repository: Repository) -> None:
    """As with pyOCD or OpenOCD, a gdb stub loads the firmware, and a terminal is its console."""
    gdb = find_port()
    ours, line = pty.openpty()  # while this end is open, it keeps QEMU's output
    tty.setraw(line)
    stub = ("-S", "-gdb", f"tcp:127.0.0.1:{gdb}", "-serial", "stdio")
    with running(*QEMU, *stub, console=ours):
        begin = ["-ex", "set $sp = *(unsigned *)0", "-ex", "set $pc = *(unsigned *)4 & ~1"]
        flash = [*GDB, "-ex", f"target remote 127.0.0.1:{gdb}", "-ex", "load", *begin]
        access = {
            "description": "QEMU behind a terminal",
            "flash": [*flash, "-ex", "detach", "{elf}"],
            "serial": {"port": os.ttyname(line)},
        }
        repository.write("board.yaml", yaml.safe_dump(access))
        words = ("platform=cortex-m4-bare", "board=board.yaml", "outdir=boards")
        done = repository.doit("build", "recipe=digits.yaml", *words)
    assert done.returncode == 0, done.stderr
    assert "the board has no cycle counter" in done.stdout  # QEMU has none
    os.close(ours)
    os.close(line)
    manifest = repository.manifest("boards/digits-cortex-m4-bare.tar.gz")
    assert manifest["run"]["emulator"] == "QEMU behind a terminal"
    assert (manifest["run"]["samples"], manifest["run"]["differences"]) == (3, 0)
    assert manifest["run"]["instructions"] is None
    assert manifest["timeline"] is None


@contextmanager
def playing(record: Callable[[], bytes]) -> Iterator[str]:
    """Answer on a terminal with a recorded console, after the number of samples has arrived."""
    ours, line = pty.openpty()
    tty.setraw(line)

    def play() -> None:
        with suppress(OSError):
            os.read(ours, 4)
            os.write(ours, record())
            while os.read(ours, 4096):
                pass

    Thread(target=play, daemon=True).start()
    yield os.ttyname(line)
    os.close(line)
    os.close(ours)


def play_board(
    repository: Repository, record: Callable[[], bytes], patience: int
) -> subprocess.CompletedProcess[str]:
    with playing(record) as port:
        access = {"description": "a recorded M4", "patience": patience, "serial": {"port": port}}
        repository.write("recorded.yaml", yaml.safe_dump(access))
        words = ("platform=cortex-m4-bare", "board=recorded.yaml", "outdir=boards")
        return repository.doit("build", "recipe=digits.yaml", *words)


Recorded = tuple[subprocess.CompletedProcess[str], bytes]


@pytest.fixture(scope="module")
def recorded(repository: Repository) -> Recorded:
    """A build with a board, and the board's console, which an emulator has recorded.

    The emulator counts the cycles of a Cortex-M4, so the firmware reads a real counter.
    """
    consoles: list[bytes] = []

    def record() -> bytes:
        elf = repository.folder / "boards/cortex-m4-bare/firmware/firmware.elf"
        given = b"".join([len(SAMPLES).to_bytes(4, "little"), *(s for (s,) in SAMPLES)])
        m4 = load_platform("cortex-m4-bare")
        ran = run_firmware(elf, m4, "unicorn", given, "network_run", 10**9)
        consoles.append(ran.console)
        return ran.console

    return play_board(repository, record, patience=60), consoles[0]


def test_a_board_with_a_counter_measures_each_layer(
    repository: Repository, recorded: Recorded
) -> None:
    done, _ = recorded
    assert done.returncode == 0, done.stderr
    assert " at 64 MHz (measured by the cycle counter of a recorded M4)" in done.stdout
    timeline = repository.manifest("boards/digits-cortex-m4-bare.tar.gz")["timeline"]
    table = repository.manifest("build/digits/digits-cortex-m4-bare.tar.gz")["timeline"]
    assert [layer["name"] for layer in timeline["layers"]] == [
        layer["name"] for layer in table["layers"]
    ]
    for measured, counted in zip(timeline["layers"][:-1], table["layers"], strict=False):
        assert measured["counted"]["instructions"] is None
        cycles = counted["counted"]["cycles"]
        assert cycles < measured["counted"]["cycles"] < 1.02 * cycles + 60
    assert timeline["total"] == sum(layer["counted"]["cycles"] for layer in timeline["layers"])


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (60, "no answer to sample 0 in 1 s; it began with b'@cy"),
        (-8, "no answer to the last sample in 1 s"),
    ],
)
def test_a_cut_log_of_a_board_is_an_error(
    repository: Repository, recorded: Recorded, end: int, message: str
) -> None:
    with playing(lambda: recorded[1][:end]) as port:
        access = BoardAccess("cut", 0, 1, serial=SerialPort(port, 115200))
        folder = repository.folder / "boards/cortex-m4-bare/firmware"
        with pytest.raises(UserError, match=re.escape(message)):
            run_on_board(access, folder, SAMPLES, [1 + 7])


@contextmanager
def behind_a_line(firmware: Path, corrupt: Corrupt) -> Iterator[BoardAccess]:
    """Run the firmware in QEMU, with its console on a line that changes the board's output."""
    line, console = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)

    def carry(source: socket.socket, drain: socket.socket, change: Corrupt) -> None:
        with suppress(OSError):
            while data := change(source.recv(4096)):
                drain.sendall(data)
        with suppress(OSError):
            drain.shutdown(socket.SHUT_RDWR)

    def connect() -> None:
        ours, _ = line.accept()
        console.connect(path)
        Thread(target=carry, args=(console, ours, corrupt), daemon=True).start()
        carry(ours, console, lambda data: data)

    kernel = ("-kernel", firmware / "firmware.elf")
    # Another test may take a free port before QEMU does, but not a path.
    with (
        TemporaryDirectory(prefix="line-") as folder,
        running(*QEMU, *kernel, "-serial", f"unix:{(path := f'{folder}/console')},server") as board,
    ):
        assert board.stdout is not None
        assert "waiting for connection" in board.stdout.readline()
        Thread(target=connect, daemon=True).start()
        port = SerialPort(f"socket://127.0.0.1:{line.getsockname()[1]}", 115200)
        yield BoardAccess("a bad line", settle=0.5, patience=3, serial=port)
    line.close()


@pytest.mark.needs("qemu-system-arm")
def test_noise_between_the_lines_is_left_out(firmware: Path) -> None:
    def add_noise(data: bytes) -> bytes:
        return data.replace(b"\n", b"\n\x00\xffnoise\r\n")

    with behind_a_line(firmware, add_noise) as access:
        execution = run_on_board(access, firmware, SAMPLES, [1])
    assert execution.exit_code == 0
    lines = execution.console.splitlines()
    assert [line.split()[0] for line in lines] == [b"@output"] * 3 + [b"@done"]


@pytest.mark.needs("qemu-system-arm")
def test_noise_in_an_answer_is_told(firmware: Path) -> None:
    passed = 0

    def add_noise(data: bytes) -> bytes:
        nonlocal passed
        at, passed = 50 - passed, passed + len(data)
        return data[:at] + b"z" + data[at:] if 0 <= at < len(data) else data

    with (
        behind_a_line(firmware, add_noise) as access,
        pytest.raises(UserError, match=r"noise in the answer to sample 1: b'@output 1 0 .*z"),
    ):
        run_on_board(access, firmware, SAMPLES, [1])


@pytest.mark.needs("qemu-system-arm")
def test_each_network_of_a_firmware_gets_its_part_of_a_sample(repository: Repository) -> None:
    """Data that is sent before a network reads would be lost, so each part waits for the answer."""
    repository.write("eyes.yaml", EYES + "platform: cortex-m4-bare\n")
    repository.build("recipe=eyes.yaml")
    folder = repository.folder / "build/eyes/cortex-m4-bare/firmware"
    with behind_a_line(folder, lambda data: data) as access:
        execution = run_on_board(access, folder, [s + s for s in SAMPLES], [1, 1])
    lines = execution.console.decode().splitlines()
    assert lines[-1] == "@done 3"
    found = [line.split() for line in lines[:-1]]
    assert [(sample, output) for _, sample, output, _ in found] == [
        ("0", "0"), ("0", "1"), ("1", "0"), ("1", "1"), ("2", "0"), ("2", "1"),
    ]  # fmt: skip
    assert [values for *_, values in found[::2]] == [values for *_, values in found[1::2]]


class FirstBytes:
    """Passes a number of bytes; later bytes are lost, as when a board resets."""

    def __init__(self, count: int) -> None:
        self.left = count

    def __call__(self, data: bytes) -> bytes:
        passed, self.left = data[: self.left], max(0, self.left - len(data))
        return passed or (b"\0" if data else b"")


@pytest.mark.needs("qemu-system-arm")
@pytest.mark.parametrize(
    ("count", "message"),
    [
        (0, r"no answer to sample 0 in 3 s"),
        (20, "no answer to sample 0 in 3 s; it began with b'@output 0 0"),
        (45, "no answer to sample 1 in 3 s"),
    ],
)
def test_a_board_that_falls_silent_is_told(firmware: Path, count: int, message: str) -> None:
    with (
        behind_a_line(firmware, FirstBytes(count)) as access,
        pytest.raises(UserError, match=message),
    ):
        run_on_board(access, firmware, SAMPLES, [1])


def test_a_line_that_is_not_there_is_told(tmp_path: Path) -> None:
    access = BoardAccess("none", 0, 1, serial=SerialPort(str(tmp_path / "tty"), 115200))
    with pytest.raises(UserError, match=r"tty: cannot be opened"):
        run_on_board(access, tmp_path, SAMPLES, [1])


@pytest.mark.parametrize(
    ("flash", "message"),
    [
        (("no-such-program",), "flash: cannot run 'no-such-program': No such file"),
        ((sys.executable, "-c", "print('no probe'); exit(3)"), "ended with 3:\n  no probe"),
    ],
)
def test_what_flashes_and_fails_is_told(
    tmp_path: Path, flash: tuple[str, ...], message: str
) -> None:
    access = BoardAccess("mine", 0, 1, flash=flash, serial=SerialPort("loop://", 115200))
    with pytest.raises(UserError, match=re.escape(message)):
        run_on_board(access, tmp_path, SAMPLES, [1])


SSHD = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
StrictModes no
UsePAM no
PidFile none
"""


@pytest.mark.needs("sshd", "ssh", "gcc")
def test_a_program_runs_on_a_computer_behind_ssh(repository: Repository, tmp_path: Path) -> None:
    for name in ("host", "user"):
        key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)]
        subprocess.run(key, check=True)
    port = find_port()
    (tmp_path / "sshd").write_text(SSHD.format(port=port, folder=tmp_path))
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # if it separates privileges
    options = ["-p", str(port), "-i", str(tmp_path / "user"), "-o", "StrictHostKeyChecking=no"]
    options += ["-o", f"UserKnownHostsFile={tmp_path}/known", "-o", "LogLevel=ERROR"]
    host = f"{getpass.getuser()}@127.0.0.1"
    access = {"description": "a computer", "ssh": {"host": host, "options": options}}
    repository.write("computer.yaml", yaml.safe_dump(access))
    words = ("platform=host", "toolchain=gcc", "board=computer.yaml")
    with running(shutil.which("sshd"), "-D", "-e", "-f", tmp_path / "sshd"):
        wait_for(port)
        repository.build("recipe=digits.yaml", *words)
        repository.write("eyes.yaml", EYES + "platform: host\n")
        repository.build("recipe=eyes.yaml", *words)
    manifest = repository.manifest("build/digits/digits-host.tar.gz")
    assert manifest["run"]["emulator"] == "a computer"
    assert (manifest["run"]["samples"], manifest["run"]["differences"]) == (3, 0)
    run = repository.manifest("build/eyes/eyes-host.tar.gz")["run"]
    assert (run["emulator"], run["turns"]) == ("a computer", 3)
    assert [network["differences"] for network in run["networks"].values()] == [0, 0]

    done = repository.doit("run", "recipe=digits.yaml", *words, "samples=2", "run:digits-host")
    assert done.returncode != 0
    shown = "command line: run.board: ssh to root@127.0.0.1 failed: ssh: connect to host 127.0.0.1"
    assert shown.replace("root", getpass.getuser()) in done.stdout + done.stderr
