"""The report of a network whose names are hostile: it shows them all, and obeys none."""

from __future__ import annotations

import csv
import io
import json
import tarfile
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

from .conftest import Repository

NAMES = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert('x')</script>\"&amp;",
    "*/ int evil; /* ??/ \\",
    "=1+1 $(shell touch evil) `touch evil` %n",
    "\N{FIRE} \u202eevil\u202c שלום: {a: b} # ---",
)


def write_network(path: Path) -> None:
    """Write convolutions in a chain; the last one also reads what the first one made."""
    nodes, weights, read = [], [], "image"
    for number, name in enumerate(NAMES):
        weight = np.full((2, 2, 3, 3), 0.01 * (number + 1), np.float32)
        weights.append(numpy_helper.from_array(weight, f"w{number}"))
        node = helper.make_node("Conv", [read, f"w{number}"], [f"t {name}"], name=name)
        node.attribute.append(helper.make_attribute("pads", [1, 1, 1, 1]))
        nodes.append(node)
        read = f"t {name}"
    nodes.append(helper.make_node("Add", [read, f"t {NAMES[0]}"], ["sum"], name="sum"))
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 2, 6, 6]) for n in ("image", "sum")
    ]
    graph = helper.make_graph(nodes, "graph", ends[:1], ends[1:], weights)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), path)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Return a repository with the network, which is built."""
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


class Page(HTMLParser):
    """The tags, attributes and texts of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.inside: list[str] = []
        self.scripts = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.scripts += tag == "script"
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def page(bundle: dict[str, bytes]) -> Page:
    return Page(bundle["report.html"].decode())


def test_names_are_text_on_the_page_and_nothing_else(page: Page) -> None:
    for name in NAMES:
        assert name in page.texts
    assert page.scripts == 1
    assert not page.tags & {"img", "iframe", "object", "embed"}
    assert not [name for name, _ in page.attributes if name.startswith("on")]


def test_the_page_needs_nothing_from_elsewhere(page: Page) -> None:
    links = [value for name, value in page.attributes if name in ("src", "href", "action")]
    assert links
    assert all(link.startswith("#") or link == "data:," for link in links)
    targets = {value for name, value in page.attributes if name == "id"}
    assert {link[1:] for link in links if link.startswith("#")} <= targets


def test_the_page_answers_without_a_script(page: Page, bundle: dict[str, bytes]) -> None:
    text = " ".join(page.texts)
    report = read_report(bundle)
    assert f"{report['total']['cycles']:,} cycles" in text
    assert "Is it exact?" in page.texts
    for layer in report["layers"]:
        assert layer["name"] in page.texts
        assert f"{layer['code']['file']}" in page.texts


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
    assert 0 < counted < report["total"]["counted"] == manifest["cycles"]["counted"]
    convolutions = [layer for layer in layers if layer["kind"] == "conv2d"]
    assert [layer["sources"][0] for layer in convolutions] == [*NAMES]
    assert [layer["follows"] for layer in convolutions[1:-1]] == [
        [layer["number"]] for layer in convolutions[:-2]
    ]
    memory = report["memory"]
    assert max(b["offset"] + b["bytes"] for b in memory["buffers"]) <= memory["arena"]
    assert memory["symbols"][0]["bytes"] >= memory["symbols"][-1]["bytes"] > 0


def test_a_layer_names_the_lines_of_its_function(bundle: dict[str, bytes]) -> None:
    for layer in read_report(bundle)["layers"]:
        code = layer["code"]
        lines = (
            bundle[f"src/{code['file']}"].decode().splitlines()[code["first"] - 1 : code["last"]]
        )
        assert layer["name"] in lines[0]
        assert lines[-1] == "}"
        assert "}" not in [line.strip() for line in lines[:-1] if not line.startswith(" ")]


def test_the_table_of_layers_is_no_formula(bundle: dict[str, bytes]) -> None:
    rows = list(csv.DictReader(io.StringIO(bundle["report/layers.csv"].decode(), newline="")))
    report = read_report(bundle)
    assert [int(row["macs"]) for row in rows] == [layer["macs"] for layer in report["layers"]]
    named = {row["layer"] for row in rows}
    assert {NAMES[0], f"'{NAMES[3]}", NAMES[4]} <= named


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
    cycles = json.loads(bundle["report/model_explorer/over_model_cycles.json"])
    own = {f"t {name}" for name in NAMES}
    assert set(cycles["results"]) <= own | {"sum"}
    first = next(layer for layer in layers if NAMES[0] in layer["sources"])
    assert cycles["results"][f"t {NAMES[0]}"]["value"] == first["time"]["counted"]
    devices = json.loads(bundle["report/model_explorer/over_model_device.json"])["results"]
    assert own | {"sum"} <= set(devices)
    assert {result["value"] for result in devices.values()} == {"c"}
    (graph,) = json.loads(bundle["report/model_explorer/compiled.json"])["graphs"]
    assert len(graph["nodes"]) == len(layers)
    known = {node["id"] for node in graph["nodes"]}
    edges = [edge for node in graph["nodes"] for edge in node["incomingEdges"]]
    assert edges
    assert {edge["sourceNodeId"] for edge in edges} <= known


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
