"""``firmwright inspect`` lists the archives of SiMa's compiler, and their stand-ins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from firmwright.bundle.archive import write_archive
from firmwright.cli import main
from firmwright.devices.mla.compiled import make_stand_in
from firmwright.ir.tensors import Tensor
from firmwright.report import inspection
from tests.devices.mla.test_mpk_archive import description, files, packed

SCHEMA = Path(inspection.__file__).with_name("inspection.schema.json")
SCHEDULE = b"0: {name: conv, start_cycle: 0, end_cycle: 99}\n"


def inspect(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str, str]:
    code = main(["inspect", *options, str(path)])
    return code, *capsys.readouterr()


def named(name: str) -> Any:
    return {**description(), "name": name, "model_sdk_version": "2.1.3"}


def test_the_steps_and_files_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = packed(tmp_path, {**files(named("net")), "net_mla_stats.yaml": SCHEDULE})
    code, text, _ = inspect(path, capsys)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert code == 0
    assert "made by SiMa's Model SDK 2.1.3" in lines
    assert "batch 16 desired, 12 actual" in lines
    assert "schedule 100 cycles by the compiler, not measured" in lines
    assert "MLA_0 MLA net_stage1_mla.elf" in lines
    assert "quantize EV74 -" in lines
    (program,) = (line for line in lines if line.startswith("net_stage1_mla.elf 4 "))
    assert len(program.split()[2]) == 64


def test_a_stand_in_says_that_it_is_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net_stand_in.tar.gz"
    tensors = (Tensor("x", (1, 4), "float32"),)
    write_archive(path, "", make_stand_in("net", tensors, tensors, 16))
    code, text, _ = inspect(path, capsys, "--json")
    found = json.loads(text)
    assert code == 0
    jsonschema.validate(found, json.loads(SCHEMA.read_bytes()))
    contents = found["archive"]["contents"]
    assert (found["kind"], contents["stand_in"]) == ("archive", True)
    assert (contents["desired_batch_size"], contents["actual_batch_size"]) == (16, None)
    assert [member["path"] for member in contents["members"]] == ["STAND_IN.txt", "net_mpk.json"]
    assert "16 desired, not stated actual" in inspect(path, capsys)[1]


WRONG: dict[str, tuple[dict[str, bytes], str]] = {
    "no program": ({"net_mpk.json": b"{}"}, "the archive has no program"),
    "other kind": ({**files(), "run.py": b""}, "has an unknown suffix"),
    "no steps": (
        {
            **files({"name": "net"}),
        },
        "does not fit its schema",
    ),
    "no UTF-8": ({**files(), "net_mla_stats.yaml": b"\xff"}, "not UTF-8"),
    "no archive of SiMa": ({"readme.txt": b""}, "a bundle has only files"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_archive_is_rejected(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    members, words = WRONG[kind]
    code, text, errors = inspect(packed(tmp_path, members), capsys)
    assert (code, text) == (2, "")
    assert words in errors
    assert errors.startswith(str(tmp_path / "net_mpk.tar.gz"))


def test_a_name_cannot_control_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = packed(tmp_path, files(named("a\x1b[31m\nbatch  1 desired")))
    assert "\x1b" not in (text := inspect(path, capsys)[1])
    assert len([line for line in text.splitlines() if line.startswith("batch")]) == 1
