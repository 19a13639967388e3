"""The output of commands that list things, including missing things."""

from __future__ import annotations

import json
from importlib.resources import files
from types import ModuleType

import jsonschema
import pytest

from firmwright.cli import main
from firmwright.targets.load_devices import target_names
from firmwright.terminal.doit_commands import list_all
from firmwright.toolchain import platform_names, toolchain_names


def lines(capsys: pytest.CaptureFixture[str], command: str) -> dict[str, str]:
    """Run a command; return the rest of each line by its first word."""
    assert main([command]) == 0
    parted = (line.partition(" ") for line in capsys.readouterr().out.splitlines())
    return {name: rest.strip() for name, _, rest in parted}


LISTS = {
    "platforms": {"platforms"},
    "targets": {"targets"},
    "toolchains": {"toolchains"},
    "doctor": {"packages", "toolchains", "emulators"},
}


@pytest.mark.parametrize("command", LISTS)
def test_json_fits_its_schema(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert main([command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    schema = json.loads(files("firmwright.report").joinpath(found["$schema"]).read_text("utf-8"))
    jsonschema.validate(found, schema)
    assert {*found} == {"$schema", *LISTS[command]}
    assert {*found} <= {"$schema", *schema["$defs"]["Installed"]["properties"]}
    names = {entry["name"] for name in LISTS[command] for entry in found[name]}
    assert names <= {*lines(capsys, command)}


def test_tasks_that_can_only_fail_are_not_listed() -> None:
    tasks = ModuleType("tasks")
    tasks.task_b = lambda: {"actions": [], "doc": "build"}  # type: ignore[attr-defined]
    tasks.task_a = lambda: {"actions": [], "meta": {"refused": True}}  # type: ignore[attr-defined]
    (listed,) = list_all(tasks).tasks
    assert (listed.name, listed.sentence) == ("b", "build")


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
