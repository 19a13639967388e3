"""The report of a network with hostile names shows all of them as plain text."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

from firmwright.bundle.archive import write_archive
from firmwright.bundle.bundle import read_bundle
from firmwright.errors import to_printable
from firmwright.report.page import render_page
from firmwright.report.report import Report
from firmwright.report.two_builds import pair_layers

from .conftest import Repository
from .hostile import NAMES, Page, repeat_layers, write_network


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Return a built repository with the network."""
    repository = Repository(tmp_path_factory.mktemp("hostile"))
    repository.write("dodo.py", "from firmwright.tasks.dodo import *\n")
    write_network(repository.folder / "net.onnx")
    # the prefix looks like the name of a region
    recipe = "model: net.onnx\ntarget: c\ncflags: [-Wall, -Wextra, -Werror]\n"
    repository.write("net.yaml", f"{recipe}c_prefix: region_net\n")
    repository.build("recipe=net.yaml")
    assert not list(repository.folder.rglob("evil"))
    return repository


@pytest.fixture(scope="module")
def bundle(hostile: Repository) -> dict[str, bytes]:
    """Return the files of the network's bundle."""
    path = hostile.folder / "build/net/net-rv32-bare.tar.gz"
    with tarfile.open(path) as archive:
        found = {
            member.name.split("/", 1)[1]: archive.extractfile(member).read()  # type: ignore[union-attr]
            for member in archive.getmembers()
        }
    assert found["report.html"] == path.with_name("net-rv32-bare.html").read_bytes()
    return found


@pytest.fixture(scope="module")
def page(bundle: dict[str, bytes]) -> Page:
    return Page(bundle["report.html"].decode())


def test_names_are_text_on_the_page_and_nothing_else(page: Page) -> None:
    for name in NAMES:
        assert to_printable(name) in page.texts
    assert page.scripts == 1
    assert not page.tags & {"img", "iframe", "object", "embed"}
    assert not [name for name, _ in page.attributes if name.startswith("on")]


def test_advice_is_on_the_page_and_in_the_terminal(
    hostile: Repository, bundle: dict[str, bytes], page: Page
) -> None:
    (advice,) = read_report(bundle)["advice"]
    assert advice["change"] == "quantize: float32 → int8"
    assert set(advice["layers"]) == set(NAMES)
    assert advice["change"] in page.texts
    shown = hostile.run_in_terminal(40, "firmwright.cli", "explain", "net.yaml")
    lines = shown.replace("\r", "").splitlines()
    assert any(line.startswith("advice: quantize: float32 → int8") for line in lines)
    assert max(map(len, lines)) <= 40
    assert "\u202e" not in shown


def test_one_layer_is_told_in_a_narrow_terminal(hostile: Repository) -> None:
    options = ("explain", "net.yaml", "--layer", NAMES[4])
    shown = hostile.run_in_terminal(40, "firmwright.cli", *options).replace("\r", "")
    recorded, _, code = shown.partition("    void ")
    assert max(map(len, recorded.splitlines())) <= 40
    assert "\u202e" not in shown
    for label in ("model", "rewritten", "region", "c", "form", "schedule", "code", "advice"):
        assert f"\n  {label} " in recorded
    assert "{" in code


def test_one_layer_as_json_is_what_its_schema_says(hostile: Repository) -> None:
    options = ("explain", "net.yaml", "--layer", NAMES[0], "--json")
    done = hostile.firmwright(*options)
    found = json.loads(done.stdout)
    schema = files("firmwright.report").joinpath("followed_layers.schema.json").read_text()
    jsonschema.validate(found, json.loads(schema))
    (followed,) = found["layers"]
    assert followed["layer"]["sources"] == [NAMES[0]]
    assert followed["advice"][0]["change"] == "quantize: float32 → int8"
    assert followed["code"][-1] == "}"


def test_two_builds_are_compared_on_a_page(hostile: Repository, tmp_path: Path) -> None:
    hostile.build("recipe=net.yaml", "platform=cortex-m4-bare")
    paths = [f"build/net/net-{name}.tar.gz" for name in ("rv32-bare", "cortex-m4-bare")]
    first, again = tmp_path / "first.html", tmp_path / "again.html"
    for written in (first, again):
        done = compare(hostile, *paths, "--html", str(written))
        assert (done.returncode, done.stdout) == (1, f"wrote {written}\n"), done.stderr
    assert first.read_bytes() == again.read_bytes()
    compared = Page(first.read_text("utf-8"))
    assert compared.scripts == 1
    assert not compared.tags & {"img", "iframe", "object", "embed"}
    assert all(
        value.startswith("#") or value == "data:,"
        for name, value in compared.attributes
        if name in ("src", "href")
    )
    reports = [read_report(dict(read_bundle(hostile.folder / path).files)) for path in paths]
    texts = " ".join(compared.texts)
    for name in NAMES:
        assert to_printable(name) in texts
    spent = [sum(x["time"]["counted"] for x in report["layers"]) for report in reports]
    shown = [v for n, v in compared.attributes if n == "data-key"]
    assert len(shown) % 4 == 0
    assert [sum(map(int, shown[column::4])) for column in (1, 2)] == spent


def compare(hostile: Repository, *arguments: str) -> subprocess.CompletedProcess[str]:
    return hostile.firmwright("diff", *arguments)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda files: files.pop("report/report.json"), "the bundle has no report/report.json"),
        (lambda files: set_version(files, 7), "report/report.json has version 7; expected"),
    ],
)
def test_a_bundle_of_another_version_has_no_page(
    hostile: Repository,
    tmp_path: Path,
    edit: Callable[[dict[str, bytes]], object],
    message: str,
) -> None:
    own = hostile.folder / "build/net/net-rv32-bare.tar.gz"
    other, written = tmp_path / "other.tar.gz", tmp_path / "page.html"
    repack(own, other, edit)
    done = compare(hostile, str(own), str(other), "--html", str(written))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{other}: {message}" in done.stderr
    assert not written.exists()


def repack(path: Path, other: Path, edit: Callable[[dict[str, bytes]], object]) -> None:
    """Pack a bundle again after an edit of its files; its manifest lists the edited files."""
    found = read_bundle(path)
    contents = dict(found.files)
    edit(contents)
    manifest = json.loads(contents.pop("manifest.json"))
    manifest["files"] = [
        {"path": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in sorted(contents.items())
    ]
    contents["manifest.json"] = json.dumps(manifest).encode()
    write_archive(other, found.folder, contents)


def test_a_layer_on_another_device_has_moved(bundle: dict[str, bytes]) -> None:
    layers = msgspec.convert(read_report(bundle), Report).layers
    moved = (*layers[:1], replace(layers[1], device="npu"), *layers[2:])
    pairs = pair_layers(layers, moved, lambda layer: layer.length)
    assert [pair.after for pair in pairs if pair.moved] == [("npu",)]
    assert {pair.more for pair in pairs} == {0}


def set_version(contents: dict[str, bytes], version: int) -> None:
    report = json.loads(contents["report/report.json"])
    contents["report/report.json"] = json.dumps({**report, "report_version": version}).encode()


def test_thousands_of_layers_make_a_page_that_grows_as_they_do(bundle: dict[str, bytes]) -> None:
    report = msgspec.convert(read_report(bundle), Report)
    copies = -(-1000 // len(report.layers))
    pages, calls = [], []
    for times in (copies, 2 * copies):
        counted = count()
        sys.setprofile(lambda *_, counted=counted: next(counted))
        pages.append(render_page(repeat_layers(report, times)))
        sys.setprofile(None)
        calls.append(next(counted))
    assert len(pages[1].encode()) < 10 * 2**20
    assert len(pages[1]) < 2.1 * len(pages[0])
    assert calls[1] < 2.2 * calls[0]


def test_the_page_needs_nothing_from_elsewhere(page: Page) -> None:
    links = [value for name, value in page.attributes if name in ("src", "href", "action")]
    assert links
    assert all(link.startswith("#") or link == "data:," for link in links)
    targets = {value for name, value in page.attributes if name == "id"}
    assert {link[1:] for link in links if link.startswith("#")} <= targets


def test_the_page_answers_without_a_script(page: Page, bundle: dict[str, bytes]) -> None:
    text = " ".join(page.texts)
    report = read_report(bundle)
    assert f"about {report['total']['total']:,} cycles" in text
    assert "Is it exact?" in page.texts
    for layer in report["layers"]:
        assert layer["name"] in page.texts
        place = layer["code"]
        assert place["file"] in page.texts
        lines = bundle[f"src/{place['file']}"].decode().splitlines()
        assert "\n".join(lines[place["first"] - 1 : place["last"]]) in page.texts


def read_report(bundle: dict[str, bytes]) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(bundle["report/report.json"])
    return report


def test_the_report_is_what_its_schema_says_and_adds_up(bundle: dict[str, bytes]) -> None:
    report = read_report(bundle)
    schema = json.loads(files("firmwright.report").joinpath(report["$schema"]).read_text())
    jsonschema.validate(report, schema)
    layers, manifest = report["layers"], json.loads(bundle["manifest.json"])
    assert [layer["number"] for layer in layers] == [*range(1, len(layers) + 1)]
    assert sum(layer["macs"] for layer in layers) == manifest["run"]["macs"]
    counted = sum(layer["time"]["counted"] for layer in layers)
    assert 0 < counted < report["total"]["counted"] == manifest["timeline"]["counted"]
    convolutions = [layer for layer in layers if layer["kind"] == "conv2d"]
    assert [layer["sources"][0] for layer in convolutions] == [*NAMES]
    assert [layer["follows"] for layer in convolutions[1:-1]] == [
        [layer["number"]] for layer in convolutions[:-2]
    ]
    memory = report["memory"]
    assert max(b["offset"] + b["bytes"] for b in memory["buffers"]) <= memory["arena"]
    assert memory["symbols"][0]["bytes"] >= memory["symbols"][-1]["bytes"] > 0


def test_a_layer_names_the_lines_of_its_function(bundle: dict[str, bytes]) -> None:
    layers = read_report(bundle)["layers"]
    own = 0
    for layer in layers:
        code = layer["code"]
        lines = (
            bundle[f"src/{code['file']}"].decode().splitlines()[code["first"] - 1 : code["last"]]
        )
        function = lines[0].removeprefix("void region_net_").partition("(")[0]
        own += function == layer["name"]
        assert function in {each["name"] for each in layers}, "or that of another with the same C"
        assert PurePosixPath(code["file"]).stem.removeprefix("region_net_") in (function, "regions")
        assert lines[-1] == "}"
        assert "}" not in [line.strip() for line in lines[:-1] if not line.startswith(" ")]
    assert own > len(layers) / 2


def test_the_table_of_layers_is_no_formula(bundle: dict[str, bytes]) -> None:
    rows = list(csv.DictReader(io.StringIO(bundle["report/layers.csv"].decode(), newline="")))
    report = read_report(bundle)
    assert [int(row["macs"]) for row in rows] == [layer["macs"] for layer in report["layers"]]
    named = {row["layer"] for row in rows}
    assert {NAMES[0], f"'{NAMES[3]}", to_printable(NAMES[4])} <= named


def test_the_trace_has_each_layer_on_the_track_of_its_device(bundle: dict[str, bytes]) -> None:
    trace = Trace()
    trace.ParseFromString(bundle["report/trace.perfetto-trace"])
    tracks = {
        p.track_descriptor.uuid: p.track_descriptor.name
        for p in trace.packet
        if p.HasField("track_descriptor")
    }
    assert list(tracks.values()) == ["c"]
    events = [p for p in trace.packet if p.HasField("track_event")]
    begun = [p for p in events if p.track_event.type == p.track_event.TYPE_SLICE_BEGIN]
    layers = read_report(bundle)["layers"]
    assert [(p.timestamp, p.track_event.name) for p in begun] == [
        (layer["time"]["start"], layer["sources"][0]) for layer in layers
    ]
    ended = [p.timestamp for p in events if p.track_event.type == p.track_event.TYPE_SLICE_END]
    assert ended == [layer["time"]["end"] for layer in layers]


def test_model_explorer_finds_the_tensors_of_the_users_own_model(bundle: dict[str, bytes]) -> None:
    layers = read_report(bundle)["layers"]
    times = json.loads(bundle["report/model_explorer/over_model_time.json"])
    own = {f"t {name}" for name in NAMES}
    assert set(times["results"]) <= own | {"sum"}
    first = next(layer for layer in layers if NAMES[0] in layer["sources"])
    assert times["results"][f"t {NAMES[0]}"]["value"] == first["time"]["counted"]
    devices = json.loads(bundle["report/model_explorer/over_model_device.json"])["results"]
    assert own | {"sum"} <= set(devices)
    assert {result["value"] for result in devices.values()} == {"c"}
    (graph,) = json.loads(bundle["report/model_explorer/compiled.json"])["graphs"]
    assert len(graph["nodes"]) == len(layers)
    known = {node["id"] for node in graph["nodes"]}
    edges = [edge for node in graph["nodes"] for edge in node["incomingEdges"]]
    assert edges
    assert {edge["sourceNodeId"] for edge in edges} <= known


def test_names_are_read_back_from_yaml_and_are_not_in_the_makefile(
    bundle: dict[str, bytes],
) -> None:
    layers = yaml.safe_load(bundle["stats/net_stats.yaml"]).values()
    assert {*NAMES} <= {source for layer in layers for source in layer.get("sources", ())}
    assert "evil" not in bundle["src/Makefile"].decode()


def test_no_compiler_is_needed_to_explain(hostile: Repository) -> None:
    bare = Repository(hostile.folder, {**hostile.environment, "PATH": ""})
    explain = ("explain", "net.yaml", "toolchain=gcc")
    for options in ((), ("--layer", "sum"), ("--json",)):
        done = bare.firmwright(*explain, "platform=host", *options)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
    printed = bare.doit("recipe=net.yaml", "platform=host", "toolchain=gcc")
    assert printed.returncode
    assert "gcc" in printed.stdout + printed.stderr
    assert "Traceback" not in printed.stdout + printed.stderr


def test_no_name_reverses_the_text_of_a_source(bundle: dict[str, bytes]) -> None:
    sources = {n: d.decode() for n, d in bundle.items() if n.endswith((".c", ".h", "Makefile"))}
    assert any("evil" in text for text in sources.values())
    assert not [name for name, text in sources.items() if "\u202e" in text]


def test_a_layer_is_followed_to_its_lines_of_c(
    hostile: Repository, bundle: dict[str, bytes]
) -> None:
    layer = next(x for x in read_report(bundle)["layers"] if NAMES[0] in x["sources"])
    explain = ("firmwright", "explain", "net.yaml", "--layer")
    done = hostile.run(*explain, NAMES[0])
    assert done.returncode == 0, done.stderr
    title, *facts = done.stdout.splitlines()[1:]
    assert title == f"{NAMES[0]}: layer {layer['number']} of {count_layers(bundle)}, on c"
    assert any(f"{layer['code']['file']}, lines" in line for line in facts)
    code = bundle[f"src/{layer['code']['file']}"].decode().splitlines()
    shown = [line[4:] for line in facts[-(layer["code"]["last"] - layer["code"]["first"] + 1) :]]
    assert shown == code[layer["code"]["first"] - 1 : layer["code"]["last"]]
    assert "\u202e" not in hostile.run(*explain, NAMES[4]).stdout
    missing = hostile.run(*explain, "sun")
    assert (missing.returncode, missing.stdout) == (1, "net on rv32-bare\n")
    assert "no layer has 'sun' in its name; did you mean 'sum'?" in missing.stderr


def count_layers(bundle: dict[str, bytes]) -> int:
    return len(read_report(bundle)["layers"])
