"""The secret in an address is sent only to its server, and is in no file and on no stream."""

from __future__ import annotations

import gzip
import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from .conftest import EXAMPLE, Repository

SECRET = "s3cr3tfeedc0de"


@contextmanager
def serve(data: bytes, asked: list[str]) -> Iterator[str]:
    """Yield the host of a server that sends a file to clients with the secret."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            known = f"X-Amz-Signature={SECRET}" in self.path
            if "moved" in self.path:
                self.send_response(302)
                self.send_header("Location", f"/files/net.onnx?X-Amz-Signature={SECRET}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            body = data if known else b""
            self.send_response(200 if known else 403, f"no {self.path}")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Write no log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def firmwright(repository: Repository, *words: str, code: int = 0) -> str:
    done = repository.firmwright(*words)
    assert done.returncode == code, done.stdout + done.stderr
    assert SECRET not in done.stdout + done.stderr
    return done.stdout + done.stderr


def refuse_secrets(folder: Path) -> None:
    """Fail if any file below a folder contains the secret, also inside archives."""
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            content += gzip.decompress(content) if path.suffix == ".gz" else b""
            assert SECRET.encode() not in content, path


@pytest.mark.needs("arm-none-eabi-gcc")
def test_a_signed_address_builds_and_is_nowhere(tmp_path: Path) -> None:
    data = (EXAMPLE / "digits.onnx").read_bytes()
    asked: list[str] = []
    repository = Repository(tmp_path)
    digest = hashlib.sha256(data).hexdigest()
    with serve(data, asked) as host:
        address = f"http://{host}/files"
        repository.environment |= {
            "HOME": str(tmp_path / "home"),
            "XDG_CACHE_HOME": str(tmp_path / "home/cache"),
            "FIRMWRIGHT_CACHE": str(tmp_path / "shared"),
            "FIRMWRIGHT_MIRROR": "",
            "FIRMWRIGHT_SIGNED_URLS": f"http://other.example/?a=b {address}/"
            f"?X-Amz-Signature={SECRET}",
        }
        url = f"{address}/net.onnx?ref=main"
        model = f"model: {{url: '{url}', sha256: '{digest}'}}\nplatform: cortex-m4-bare\n"
        model += "toolchain: arm-none-eabi-gcc\n"  # zig would build its library in the new HOME
        repository.write("net.yaml", f"{model}run: {{samples: 1}}\n")
        firmwright(repository, "build", "net.yaml")
        assert asked == [f"/files/net.onnx?ref=main&X-Amz-Signature={SECRET}"]
        for words in (("info", "net.yaml"), ("explain", "net.yaml", "--json"), ("lock", "net.yaml"),
                      ("inspect", "build/net/net-cortex-m4-bare.tar.gz", "--json")):  # fmt: skip
            firmwright(repository, *words)
        repository.write("moved.yaml", model.replace("net.onnx", "moved.onnx"))
        firmwright(repository, "build", "moved.yaml")
        wrong = model.replace(digest, "0" * 64)
        repository.write("wrong.yaml", wrong)
        assert "wrong digest" in firmwright(repository, "build", "wrong.yaml", code=1)
        repository.environment["FIRMWRIGHT_SIGNED_URLS"] = f"{address}/?token={SECRET}"
        repository.write("closed.yaml", model.replace("net.onnx", "closed.onnx"))
        (tmp_path / "build/moved").rename(tmp_path / "moved-before")
        printed = firmwright(repository, "build", "closed.yaml", code=1)
        assert "403" in printed
    manifest = repository.manifest("build/net/net-cortex-m4-bare.tar.gz")
    assert manifest["recipe"]["resolved"]["model"]["url"] == url
    refuse_secrets(tmp_path)


PLACES = {
    "query": f"model: {{url: 'https://h.example/n.onnx?token={SECRET}', sha256: '{'0' * 64}'}}\n",
    "query behind a known one": f"model: {{url: 'https://h.example/n.onnx?ref=a&sig={SECRET}', "
    f"sha256: '{'0' * 64}'}}\n",
    "fragment": f"model: {{url: 'https://h.example/n.onnx#{SECRET}', sha256: '{'0' * 64}'}}\n",
    "password": f"model: {{url: 'https://me:{SECRET}@h.example/n.onnx', sha256: '{'0' * 64}'}}\n",
    "password with a slash": f"model: {{url: 'https://me:/{SECRET}@h.example/n.onnx', "
    f"sha256: '{'0' * 64}'}}\n",
    "path": f"model: 'https://h.example/n.onnx?token={SECRET}'\n",
    "sample": f"model: n.onnx\nrun: {{inputs: {{x: {{pictures: [{{sha256: '{'0' * 64}', "
    f"url: 'https://h.example/a.png?token={SECRET}'}}]}}}}}}\n",
    "unknown key": f"model: n.onnx\nmodels: 'https://h.example/n.onnx?token={SECRET}'\n",
}


@pytest.mark.parametrize("place", PLACES)
def test_a_recipe_with_a_secret_is_rejected_without_it(place: str, tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    (tmp_path / "recipes").mkdir()
    repository.write("recipes/net.yaml", PLACES[place])
    printed = firmwright(repository, "build", "recipes/net.yaml", code=1)
    assert printed.startswith("recipes/net.yaml:")
    (tmp_path / "recipes/net.yaml").unlink()
    refuse_secrets(tmp_path)


VARIABLES = {
    "FIRMWRIGHT_CACHE": (
        f"http://me:{SECRET}@127.0.0.1:9/team",
        f"http://127.0.0.1:9/team?token={SECRET}",
        f"http://me:{SECRET}@127.0.0.1:99999/",
        f"nothing://me:{SECRET}@h/bucket",
    ),
    "FIRMWRIGHT_SIGNED_URLS": (f"ftp://h/?token={SECRET}", SECRET),
}


def test_messages_about_variables_show_no_secret(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    url = "http://127.0.0.1:9/net.onnx"
    repository.write("net.yaml", f"model: {{url: '{url}', sha256: '{'0' * 64}'}}\nplatform: host\n")
    for name, values in VARIABLES.items():
        for value in values:
            repository.environment = {**Repository(tmp_path).environment, name: value}
            firmwright(repository, "build", "net.yaml", code=1)
    refuse_secrets(tmp_path)
