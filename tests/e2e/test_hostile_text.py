"""Text from outside never controls a terminal or a page, in any output that shows it."""

from __future__ import annotations

import json
import re
import tarfile
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from .conftest import Repository

HOSTILE = "a\x1b[2J\x1b]0;b\x07\x9b2J\x7f\r\u202e\u2066c\u200b\u2028\ufeff*/ ???/ \\"
"""C0, DEL, C1, both directions, no width, line separators, an end of comment, a trigraph."""
WRITTEN = json.dumps(HOSTILE)
"""This text in YAML quotes; firmwright rejects it in a recipe, but some YAML parsers accept it."""
ACCEPTED = "a\u202e\u2066c\u200b\u2028*/ ???/ \\"
"""Text that recipes may contain."""
FILE = HOSTILE.replace("/", "")
MODEL, SAMPLES = (f"{ACCEPTED.replace('/', '')}.{kind}" for kind in ("onnx", "npz"))
BINARY = (".onnx", ".npz", ".npy", ".gz", ".elf", ".bin", ".o", ".pftrace", ".png", ".jinja")
SEQUENCES = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07)|\r")
"""Terminal sequences that rich writes, and line ends."""


def find_raw(text: str) -> set[str]:
    """Return the characters that control a terminal, reverse text, or are invisible."""
    categories = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return {f"U+{ord(c):04X}" for c in text if unicodedata.category(c) in categories} - {
        "U+000A",
        "U+0009",
    }


def write_model(path: Path) -> None:
    """Write a network whose texts are all hostile."""
    names = [f"{HOSTILE}{n}" for n in range(4)]
    weight = np.full((2, 2, 3, 3), 0.01, np.float32)
    conv = helper.make_node("Conv", [names[0], names[2]], [names[3]], names[1], HOSTILE)
    relu = helper.make_node("Relu", [names[3]], [names[1]], names[0], HOSTILE)
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape, HOSTILE)
        for name, shape in ((names[0], [1, 2, 6, 6]), (names[1], [1, 2, 4, 4]))
    ]
    graph = helper.make_graph(
        [conv, relu], HOSTILE, ends[:1], ends[1:], [numpy_helper.from_array(weight, names[2])],
        HOSTILE,
    )  # fmt: skip
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10, doc_string=HOSTILE,
        producer_name=HOSTILE,
    )  # fmt: skip
    helper.set_model_props(model, {HOSTILE: HOSTILE})
    onnx.save(model, path)


@contextmanager
def answer_hostile(status: int) -> Iterator[str]:
    """Yield the address of a server whose reason phrase is hostile."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            reason = HOSTILE.replace("\r", "").encode()
            self.wfile.write(b"HTTP/1.1 %d %b\r\nContent-Length: 0\r\n\r\n" % (status, reason))
            self.close_connection = True

        do_PUT = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Write no log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    repository = Repository(tmp_path_factory.mktemp("hostile"))
    repository.write("dodo.py", "from firmwright.tasks.dodo import *\n")
    write_model(repository.folder / MODEL)
    samples: dict[str, Any] = {f"{HOSTILE}0": np.ones((1, 1, 2, 6, 6), "f4")}
    np.savez(repository.folder / SAMPLES, **samples)
    repository.write(
        "net.yaml",
        f"description: {json.dumps(ACCEPTED)}\nmodel: {json.dumps(MODEL)}\nplatform: host\n"
        f"run: {{inputs: {json.dumps(SAMPLES)}, samples: 1}}\n"
        "export: {to: [cmake, rust, zephyr, esp-idf, platformio, arduino, cmsis-pack]}\n"
        "demo: {}\n",
    )
    return repository


def check(*texts: str) -> None:
    for text in texts:
        assert not find_raw(text), f"{find_raw(text)} in {text[:3000]!r}"


def firmwright(repository: Repository, *words: str) -> str:
    """Run a command that succeeds, and check its streams."""
    done = repository.firmwright(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    check(done.stdout, done.stderr)
    return done.stdout


def test_a_build_of_hostile_names_shows_and_writes_none_of_them(hostile: Repository) -> None:
    firmwright(hostile, "build", "net.yaml", "--no-user-code")
    shown = hostile.run_in_terminal(60, "firmwright.cli", "build", "net.yaml", "samples=1")
    check(SEQUENCES.sub("", shown))
    with tarfile.open(hostile.folder / "build/net/net-host.tar.gz") as archive:
        archive.extractall(hostile.folder / "build/unpacked", filter="data")
    written = [path for path in (hostile.folder / "build").rglob("*") if path.is_file()]
    seen = 0
    for path in written:
        if path.suffix in BINARY:
            continue
        try:
            text = path.read_bytes().decode()
        except UnicodeDecodeError:
            continue  # programs, and doit's state
        if "\0" in text:
            continue
        seen += 1
        assert not find_raw(text), f"{path}: {find_raw(text)}"
    assert seen > 50
    page = (hostile.folder / "build/net/net-host.html").read_text()
    assert "\\u202e" in page


COMMANDS = (
    ("list", "net.yaml", "--json"),
    ("show", "net.yaml", "--json"),
    ("build", "net.yaml", "--json"),
    ("info", "net.yaml"),
    ("info", "net.yaml", "--json"),
    ("info", "net.yaml", "--task", "model"),
    ("explain", "net.yaml"),
    ("explain", "net.yaml", "--json"),
    ("explain", "net.yaml", "--layer", f"{HOSTILE}1"),
    ("explain", "net.yaml", "--layer", f"{HOSTILE}1", "--json"),
    ("inspect", "build/net/net-host.tar.gz"),
    ("inspect", "build/net/net-host.tar.gz", "--json"),
    ("diff", "build/net/net-host.tar.gz", "build/net/net-host.tar.gz", "--json"),
    ("diff", "build/net/net-host.tar.gz", "build/net/net-host.tar.gz", "--markdown"),
    ("lock", "net.yaml"),
    ("clean", "net.yaml"),
)
"""Commands that show a built recipe, in this order."""


def test_commands_show_none_of_them(hostile: Repository) -> None:
    """JSON also fits the schema that it names, which is in the package."""
    firmwright(hostile, "build", "net.yaml")
    for words in COMMANDS:
        text = firmwright(hostile, *words)
        if "--json" in words:
            found = json.loads(text)
            schema = files("firmwright.report").joinpath(found["$schema"])
            jsonschema.validate(found, json.loads(schema.read_text("utf-8")))
    check((hostile.folder / "net.lock").read_text())
    (hostile.folder / "net.lock").unlink()


def test_init_writes_none_of_them(hostile: Repository) -> None:
    """A name with a line end must not add a key to the recipe."""
    folder = hostile.folder / "new"
    folder.mkdir()
    write_model(folder / f"{FILE}.onnx")
    firmwright(Repository(folder), "init", f"{FILE}.onnx", "--platform", "host")
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix != ".onnx":
            check(path.read_text("utf-8"))


def test_a_shared_cache_controls_no_terminal(hostile: Repository) -> None:
    with answer_hostile(403) as host:
        cached = Repository(hostile.folder, {**hostile.environment})
        cached.environment["FIRMWRIGHT_CACHE"] = f"http://{host}/team"
        done = cached.firmwright("build", "net.yaml", "outdir=c")
    assert "answers 403 a\\u001b" in done.stdout + done.stderr
    check(done.stdout, done.stderr)


REFUSED = {
    "networks": f"networks: {{one: {WRITTEN}, two: {WRITTEN}}}\nplatform: host\n",
    "key": f"model: digits.onnx\n{WRITTEN}: 1\n",
    "name of a key": f"networks: {{{WRITTEN}: x.yaml}}\nplatform: host\n",
    "model": f"model: {json.dumps(HOSTILE + '.onnx')}\nplatform: host\n",
    "platform": f"model: m.onnx\nplatform: {WRITTEN}\n",
    "own platform": f"model: m.onnx\nplatform: {json.dumps(HOSTILE + '.yaml')}\n",
    "toolchain": f"model: m.onnx\nplatform: host\ntoolchain: {WRITTEN}\n",
    "target": f"model: m.onnx\nplatform: host\ntarget: {WRITTEN}\n",
    "device": f"model: m.onnx\nplatform: host\ndevices: {{x: 'device:{FILE[:1]}'}}\n",
    "files": f"model: m.onnx\nplatform: host\nfiles: [{WRITTEN}]\n",
    "flag": f"model: digits.onnx\nplatform: host\ncflags: [{json.dumps('-D' + HOSTILE)}]\n",
    "input": f"model: digits.onnx\nplatform: host\nrun: {{inputs: {{{WRITTEN}: x.npy}}}}\n",
    "YAML": "model: \u202e\u200b[\n",
    "python": "model: {python: 'own:make'}\nplatform: host\n",
    "sha256": f"model: {{path: {WRITTEN}, sha256: {WRITTEN}}}\n",
    "url": f"model: {{url: {json.dumps('https://h/' + HOSTILE)}, sha256: '{'0' * 64}'}}\n",
}
"""Recipes, by the source of their hostile text."""


@pytest.mark.parametrize("source", REFUSED)
def test_messages_about_recipes_control_no_terminal(source: str, tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.write("bad.yaml", REFUSED[source])
    repository.write("own.py", f"def make():\n    raise ValueError({HOSTILE!r})\n")
    (tmp_path / "digits.onnx").write_bytes(b"no model")
    done = repository.firmwright("build", "bad.yaml")
    assert done.returncode
    assert "Traceback" not in done.stderr
    check(done.stdout, done.stderr)


ENVIRONMENTS = (
    {"FIRMWRIGHT_MIRROR": FILE},
    {"FIRMWRIGHT_CACHE": f"http://{FILE}"},
    {"FIRMWRIGHT_CACHE_SIZE": FILE, "FIRMWRIGHT_CACHE": "c"},
    {"FIRMWRIGHT_THREADS": FILE},
    {"FIRMWRIGHT_SIGNED_URLS": FILE},
)
WORDS = (
    ("build", FILE),
    ("build", f"{FILE}.yaml"),
    ("build", "net.yaml", f"platform={FILE}"),
    ("build", "net.yaml", f"{FILE}=1"),
    ("info", "net.yaml", "--task", FILE),
    ("explain", "net.yaml", "--layer", FILE),
    ("inspect", FILE),
    ("diff", f"{FILE}:net.yaml", "net.yaml"),
    ("verify-bundle", FILE, "--policy", FILE),
    ("init", FILE),
    ("new", "board", FILE, "--like", FILE),
    ("pull", f"{FILE}/net:1"),
    (FILE,),
)


def test_messages_about_words_control_no_terminal(hostile: Repository) -> None:
    for words in WORDS:
        done = hostile.firmwright(*words)
        assert done.returncode, words
        assert "Traceback" not in done.stderr
        check(done.stdout, done.stderr)


def test_messages_about_variables_control_no_terminal(hostile: Repository) -> None:
    url = f"model: {{url: 'http://127.0.0.1:9/m.onnx', sha256: '{'0' * 64}'}}\nplatform: host\n"
    hostile.write("fetched.yaml", url)
    for environment in ENVIRONMENTS:
        repository = Repository(hostile.folder, hostile.environment | environment)
        done = repository.firmwright("build", "fetched.yaml")
        assert done.returncode, environment
        assert "Traceback" not in done.stderr
        check(done.stdout, done.stderr)


def test_servers_control_no_terminal(hostile: Repository) -> None:
    with answer_hostile(500) as host:
        url = f"model: {{url: 'http://{host}/m.onnx', sha256: '{'0' * 64}'}}\nplatform: host\n"
        hostile.write("fetched.yaml", url)
        for words in (("build", "fetched.yaml"), ("pull", f"{host}/net:1", "pulled")):
            done = hostile.firmwright(*words)
            assert "the server answers 500 a\\u001b" in done.stderr
            check(done.stdout, done.stderr)
