"""Stores a firmware on a board, starts it, and exchanges data with it sample by sample."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from firmwright.emulator.execution import Execution
from firmwright.errors import UserError
from firmwright.hardware.access import BoardAccess, SshHost
from firmwright.hardware.serial_console import SerialConsole

COMMAND_LIMIT = 600
"""The maximum time in seconds for flashing or resetting a board."""
TAIL = 5
"""The maximum number of output lines of a failed command that a message shows."""


def run_on_board(
    access: BoardAccess, firmware: Path, samples: Sequence[Sequence[bytes]], outputs: Sequence[int]
) -> Execution:
    """Flash the board, reset it, and run the samples.

    Instructions are not counted. If the firmware measures its cycles, they are on the console.

    ``firmware`` is the folder of the images. Each sample contains the input bytes of each network
    of the firmware, in order. ``outputs`` has the number of lines in each network's answer. Raises
    UserError if a command fails or the board does not answer.
    """
    run_command(access, access.flash, "flash", firmware)
    if access.ssh is not None:
        return run_over_ssh(access, access.ssh, firmware / "firmware.elf", samples)
    assert access.serial is not None, "the schema asks for a console"
    with SerialConsole(access.serial, access.patience) as console:
        run_command(access, access.reset, "reset", firmware)
        time.sleep(access.settle)
        lines = console.exchange(samples, outputs)
    exit_code = 0 if lines[-1].startswith(b"@done") else 1
    return Execution(access.description, exit_code, b"\n".join(lines) + b"\n")


def run_command(access: BoardAccess, arguments: Sequence[str], key: str, firmware: Path) -> None:
    """Run a command of the board if there is one. Raises UserError if the command fails."""
    if not arguments:
        return
    images = {name: str(firmware / f"firmware.{name}") for name in ("elf", "bin", "hex")}
    images |= {f"network_{name}": str(firmware / f"network.{name}") for name in tuple(images)}
    command = [fill_in(argument, images) for argument in arguments]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=COMMAND_LIMIT, check=False,
        )  # fmt: skip
    except OSError as error:
        raise UserError(f"{key}: cannot run '{command[0]}': {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise UserError(
            f"{key}: '{command[0]}' did not end within {COMMAND_LIMIT} s; check the board and "
            "the command"
        ) from None
    if done.returncode != 0:
        tail = [f"  {line}" for line in done.stdout.decode(errors="replace").splitlines()[-TAIL:]]
        first = f"{key} of {access.description}: '{command[0]}' ended with {done.returncode}:"
        raise UserError("\n".join([first, *tail]))


def fill_in(argument: str, images: dict[str, str]) -> str:
    """Return an argument in which paths replace the names of images. Other braces stay."""
    for name, path in images.items():
        argument = argument.replace(f"{{{name}}}", path)
    return argument


def run_over_ssh(
    access: BoardAccess, ssh: SshHost, program: Path, samples: Sequence[Sequence[bytes]]
) -> Execution:
    """Copy the program to a computer and run it there. ssh connects the console."""
    script = f'p=$(mktemp) && head -c {program.stat().st_size} >"$p"'
    script += ' && chmod 700 "$p" && { "$p"; s=$?; rm -f "$p"; exit $s; }'
    command = ["ssh", "-o", "BatchMode=yes", *ssh.options, ssh.host, script]
    console = [len(samples).to_bytes(4, "little"), *(part for sample in samples for part in sample)]
    given = program.read_bytes() + b"".join(console)
    limit = access.patience * (1 + len(samples))
    try:
        done = subprocess.run(command, input=given, capture_output=True, timeout=limit, check=False)
    except OSError as error:
        raise UserError(f"ssh: cannot be run: {error.strerror}; install OpenSSH's client") from None
    except subprocess.TimeoutExpired:
        raise UserError(
            f"{access.description}: the program did not end within {limit:g} s; check the "
            "board, or raise `patience`"
        ) from None
    if done.returncode == 255:  # the error code of ssh itself
        reason = done.stderr.decode(errors="replace").strip()
        raise UserError(
            f"ssh to {ssh.host} failed: {reason}; `ssh {ssh.host}` has to work without a password"
        )
    return Execution(access.description, done.returncode, done.stdout)
