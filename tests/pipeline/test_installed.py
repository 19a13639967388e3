"""The output of commands that list things, including missing things."""

from __future__ import annotations

import pytest

from firmwright.cli import main
from firmwright.targets.load import target_names
from firmwright.toolchain import platform_names, toolchain_names


def lines(capsys: pytest.CaptureFixture[str], command: str) -> dict[str, str]:
    """Run a command; return the rest of each line by its first word."""
    assert main([command]) == 0
    parted = (line.partition(" ") for line in capsys.readouterr().out.splitlines())
    return {name: rest.strip() for name, _, rest in parted}


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("platforms", platform_names()),
        ("targets", target_names()),
        ("toolchains", toolchain_names()),
    ],
)
def test_everything_is_listed(
    capsys: pytest.CaptureFixture[str], command: str, names: tuple[str, ...]
) -> None:
    assert {*names} <= {*lines(capsys, command)}


def test_doctor_says_how_to_get_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    found = lines(capsys, "doctor")
    assert found["apache-tvm"].startswith("0.27.0")
    assert found["zig"].startswith("zig ")
    assert found["arm-none-eabi-gcc"].startswith("missing: arm-none-eabi-gcc is not installed; get")
    assert found["qemu-system-arm"].startswith("missing: ")
    assert found["unicorn"][0].isdigit()
