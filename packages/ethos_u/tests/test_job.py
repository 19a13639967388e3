"""A program that starts the simulator reports a failed job, and removes the job's file."""

import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

MAIN = """\
#include "fw_ethos_u.h"

int main(void)
{
    static uint8_t memory[16];
    uint8_t *const bases[] = {0, memory};
    const uint32_t sizes[] = {0, sizeof memory};
    fw_ethos_u_run((const uint8_t *)"abcd", 4, bases, sizes, 2);
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a program that runs a job with a damaged payload."""
    folder = tmp_path_factory.mktemp("job")
    templates = files("firmwright_ethos_u").joinpath("templates/ethos_u")
    for name in ("fw_ethos_u.h", "posix/fw_ethos_u.c"):
        text = templates.joinpath(f"{name}.j2").read_text()
        (folder / Path(name).name).write_text(text.replace("/tmp/", f"{folder}/"))
    (folder / "main.c").write_text(MAIN)
    command = ["gcc", "-std=c99", "-o", "program", "main.c", "fw_ethos_u.c"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "program"


@pytest.mark.parametrize(
    ("python", "message"),
    [
        (sys.executable, "driver payload: starts with b'abcd', has 4 bytes; expected b'COP1'"),
        ("/no/python", "fw_ethos_u: the simulator does not run; set FIRMWRIGHT_PYTHON to a Python"),
    ],
)
def test_failed_job(program: Path, python: str, message: str) -> None:
    environment = {**os.environ, "FIRMWRIGHT_PYTHON": python}
    done = subprocess.run([program], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not [*program.parent.glob("fw_ethos_u_*")]
