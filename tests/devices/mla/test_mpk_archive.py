"""Archives of SiMa's compiler: their contents are read, and each kind of wrong one is rejected."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firmwright.devices.mla.compiled import describe_archive, read_schedule
from firmwright.devices.mla.mpk import Pipeline, read_pipeline
from firmwright.devices.mla.mpk_archive import read_archive, read_description
from firmwright.errors import UserError
from firmwright.report.manifest import ArtifactsReport, CompiledArchive

Step = dict[str, Any]


def step(name: str, sequence: int, processor: str, reads: str, makes: str, **config: int) -> Step:
    return {
        "name": name,
        "sequence": sequence,
        "processor": processor,
        "config_params": config,
        "input_nodes": [{"name": reads, "size": 4}],
        "output_nodes": [{"name": makes, "type": "buffer", "size": 4}],
    }


def description() -> dict[str, Any]:
    """Return the steps of a network that is all on the MLA, with the batch of SiMa's page."""
    return {
        "name": "net",
        "input_nodes": [{"name": "x"}],
        "plugins": [
            step("quantize", 1, "EV74", "x", "q"),
            {
                **step("MLA_0", 3, "MLA", "q", "m", desired_batch_size=16, actual_batch_size=12),
                "resources": {"executable": "net_stage1_mla.elf"},
            },
            step("dequantize", 4, "EV74", "m", "y"),
        ],
    }


PROGRAM = {"net_stage1_mla.elf": b"\x7fELF"}


def files(content: Any = None) -> dict[str, bytes]:
    return {"net_mpk.json": json.dumps(content or description()).encode(), **PROGRAM}


def pack(path: Path, members: dict[str, bytes], change: Callable[[tarfile.TarInfo], None]) -> Path:
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(data), 1.5
            change(entry)
            archive.addfile(entry, io.BytesIO(data) if entry.isreg() else None)
    return path


def packed(folder: Path, members: dict[str, bytes]) -> Path:
    return pack(folder / "net_mpk.tar.gz", members, lambda _: None)


def pipeline(content: Any, members: list[str] | None = None) -> Pipeline:
    return read_pipeline("net_mpk.json", content, members or ["net_mpk.json", *PROGRAM])


def test_an_archive_as_the_compiler_writes_it_is_read(tmp_path: Path) -> None:
    found = read_archive(packed(tmp_path, {**files(), "net_mla_stats.yaml": b""}))
    assert sorted(found) == ["net_mla_stats.yaml", "net_mpk.json", "net_stage1_mla.elf"]
    read = read_pipeline(*read_description(found), list(found))
    assert (read.desired_batch_size, read.actual_batch_size) == (16, 12)
    assert read.processors == {"EV74": 2, "MLA": 1}
    assert (read.mla_programs, read.arm_programs) == (("net_stage1_mla.elf",), ())
    assert not read.remarks


def test_folders_in_front_of_names_and_older_programs_are_read(tmp_path: Path) -> None:
    content = description()
    content["plugins"][1]["resources"]["executable"] = "net.lm"
    members = {"./etc/net_mpk.json": json.dumps(content).encode(), "./lib/net.lm": b"lm"}
    found = read_archive(packed(tmp_path, members))
    assert read_pipeline(*read_description(found), list(found)).mla_programs == ("net.lm",)


ENTRIES: dict[str, tuple[dict[str, bytes], str]] = {
    "empty": ({}, "0 files *_mpk.json"),
    "no description": (PROGRAM, "0 files *_mpk.json"),
    "two descriptions": ({**files(), "other_mpk.json": b"{}"}, "2 files *_mpk.json"),
    "no program": ({"net_mpk.json": b"{}"}, "the archive has no program"),
    "upwards": ({**files(), "../net.so": b""}, "'..' in its name"),
    "absolute": ({**files(), "/net.so": b""}, "an absolute name"),
    "drive": ({**files(), "C:net.so": b""}, "an absolute name"),
    "backslash": ({**files(), "a\\net.so": b""}, "a backslash"),
    "look-alike": ({**files(), "a\u2215net.so": b""}, "looks like a slash"),
    "other kind": ({**files(), "run.py": b""}, "has an unknown suffix"),
    "flattened": ({**files(), "lib/net_stage1_mla.elf": b""}, "two files are named"),
    "many": ({**files(), **{f"{i}.so": b"" for i in range(2047)}}, "more than 2,048 files"),
    "bomb": ({**files(), "a.json": b" " * 32 * 1024**2}, "unpack to more than 16,777,216"),
    "keys twice": ({**PROGRAM, "net_mpk.json": b'{"a": 1, "a": 2}'}, "duplicate key 'a'"),
    "deep": ({**PROGRAM, "net_mpk.json": b"[" * 70 + b"]" * 70}, "more than 64 nested levels"),
    "no JSON": ({**PROGRAM, "net_mpk.json": b"{"}, "not JSON"),
}


@pytest.mark.parametrize("kind", ENTRIES)
def test_a_wrong_archive_is_refused(kind: str, tmp_path: Path) -> None:
    members, words = ENTRIES[kind]
    with pytest.raises(UserError) as caught:
        read_description(read_archive(packed(tmp_path, members)))
    assert words in str(caught.value)


def test_much_json_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firmwright.devices.mla.mpk_archive.MAX_JSON_BYTES", 100)
    with pytest.raises(UserError, match="the JSON files of the archive have more than 100 bytes"):
        read_archive(packed(tmp_path, files()))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(kind: bytes, tmp_path: Path) -> None:
    def change(entry: tarfile.TarInfo) -> None:
        if entry.name.endswith(".elf"):
            entry.type, entry.linkname, entry.size = kind, "net_mpk.json", 0

    with pytest.raises(UserError, match="is a link, a device"):
        read_archive(pack(tmp_path / "net.tar.gz", files(), change))


def test_a_file_with_holes_is_refused(tmp_path: Path) -> None:
    """The file has 512 bytes, but expands to a gigabyte of zeros."""
    headers = {"major": "1", "minor": "0", "name": "net.so", "realsize": str(2**30)}

    def change(entry: tarfile.TarInfo) -> None:
        if entry.name == "net.so":
            entry.pax_headers = {f"GNU.sparse.{key}": value for key, value in headers.items()}

    members = {**files(), "net.so": b"1\n0\n0\n".ljust(512, b"\0")}
    with pytest.raises(UserError, match=r"'net\.so' is a link, a device or a sparse file"):
        read_archive(pack(tmp_path / "net.tar.gz", members, change))


@pytest.mark.parametrize(
    ("content", "words"), [(b"PK zip", "not a .tar.gz archive"), (None, "truncated")]
)
def test_what_is_no_archive_is_refused(content: bytes | None, words: str, tmp_path: Path) -> None:
    path = packed(tmp_path, files())
    path.write_bytes(path.read_bytes()[:-9] if content is None else content)
    with pytest.raises(UserError, match=words):
        read_archive(path)


def test_a_name_that_is_not_of_an_archive_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"ends with \.tar\.gz"):
        read_archive(tmp_path / "net.TAR.GZ")


def changed(change: Callable[[list[Step]], None]) -> dict[str, Any]:
    content = description()
    change(content["plugins"])
    return content


CONTENTS: dict[str, tuple[Any, str]] = {
    "no steps": ({"name": "net"}, "plugins"),
    "processor": (changed(lambda s: s[0].update(processor="CVU")), "plugins[0].processor"),
    "batch as text": (
        changed(lambda s: s[1]["config_params"].update(actual_batch_size="12")),
        "config_params.actual_batch_size",
    ),
    "batch above": (
        changed(lambda s: s[1]["config_params"].update(actual_batch_size=17)),
        "an actual batch of 17, above the desired batch of 16",
    ),
    "same step": (
        changed(lambda s: s[2].update(name="quantize")),
        "the step 'quantize' appears 2 times",
    ),
    "same output": (
        changed(lambda s: s[2]["output_nodes"][0].update(name="q")),
        "the output 'q' appears 2 times",
    ),
    "unmade input": (
        changed(lambda s: s[2]["input_nodes"][0].update(name="z")),
        "the step 'dequantize' reads 'z', which no earlier step writes",
    ),
    "order": (changed(lambda s: s[0].update(sequence=9)), "reads 'q', which no earlier step"),
    "missing program": (
        changed(lambda s: s[1]["resources"].update(executable="other.elf")),
        "no file 'other.elf', which a step runs",
    ),
    "unused program": (changed(lambda s: s[1].pop("resources")), "no step runs the file"),
}


@pytest.mark.parametrize("kind", CONTENTS)
def test_a_wrong_description_is_refused(kind: str) -> None:
    content, words = CONTENTS[kind]
    with pytest.raises(UserError) as caught:
        pipeline(content)
    assert words in str(caught.value)


def test_what_the_vendors_reader_tolerates_is_remarked() -> None:
    content = changed(lambda s: s[0]["input_nodes"][0].update(name="image"))
    content["plugins"][1]["resources"]["executable"] = "net.so"
    found = pipeline(content, ["net_mpk.json", "net.so"])
    assert found.remarks == (
        "the step 'quantize' reads 'image', which no step writes; it counts as an input of the "
        "network",
        "the step 'MLA_0' of the MLA runs net.so, which is a library",
    )


def test_a_batch_that_is_not_stated_is_unknown() -> None:
    content = changed(lambda s: s[1].update(config_params={"params": {"batch_size": 16}}))
    found = pipeline(content)
    assert (found.desired_batch_size, found.actual_batch_size) == (16, None)


STATS = """\
'5':
  name: MLA_0/conv2d_add_relu_4
  start_cycle: 71559
  end_cycle: 79502
4: {name: MLA_0/conv2d_add_relu_3, start_cycle: 63615, end_cycle: 71558}
"""


def test_the_schedule_is_read_in_the_order_of_its_indices() -> None:
    found = read_schedule(STATS, "net_mla_stats.yaml")
    assert [(layer.name[-1], layer.start_cycle, layer.end_cycle) for layer in found] == [
        ("3", 63615, 71558),
        ("4", 71559, 79502),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("4: {name: a, start_cycle: 9, end_cycle: 8}", "ends in cycle 8, before it starts in 9"),
        ("4: {name: a, start_cycle: 9}", "expected end_cycle, name, start_cycle"),
        ("4: {name: a, start_cycle: 1.5, end_cycle: 8}", "as whole numbers"),
        ("x: {name: a, start_cycle: 1, end_cycle: 8}", "expected whole numbers as the layers'"),
        ("4: 1\n'4': 2", "two layers have one index"),
        ("- 1", "expected a mapping from indices to layers"),
        ("", "expected a mapping from indices to layers"),
        ("4: [", "not valid YAML"),
    ],
)
def test_a_wrong_schedule_is_refused(text: str, words: str) -> None:
    with pytest.raises(UserError, match="net_mla_stats") as caught:
        read_schedule(text, "net_mla_stats.yaml")
    assert words in str(caught.value)


@pytest.mark.parametrize(("batch", "lines"), [(1, 1), (16, 2)])
def test_without_the_sdk_the_actual_batch_is_unknown(batch: int, lines: int) -> None:
    archive = CompiledArchive("net_stand_in.tar.gz", True, (), {}, (), batch, None, ())
    said = describe_archive(ArtifactsReport("net_mla", (), "", 0, (), None, (), archive), archive)
    assert len(said) == lines
    unknown = "batch 16 desired; the actual batch of the MLA is unknown without SiMa's Model SDK"
    assert (unknown in said) == (batch == 16)
