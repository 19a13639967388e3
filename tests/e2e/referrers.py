"""A stand-in for registries that list the referrers of a manifest, in pages.

Debian has no such registry. The stand-in can also answer a request with a page for people. Source:
OCI's distribution specification 1.1, "Listing Referrers".
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

INDEX_TYPE = "application/vnd.oci.image.index.v1+json"


class ListingRegistry(BaseHTTPRequestHandler):
    """Keeps blobs, manifests and lists of referrers in memory; a page has one entry of a list."""

    kept: dict[str, tuple[bytes, str]]
    referrers: dict[str, list[Any]]
    lists: bool

    def log_message(self, *_: object) -> None:
        """Write no log."""

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self) -> None:
        path, query = urlsplit(self.path)[2:4]
        name = path.rsplit("/", 1)[1]
        if "/referrers/" in path and not self.lists:
            self.answer(200, b"<html>Sign in</html>", Content_Type="text/html")
        elif "/referrers/" in path:
            listed, page = self.referrers.get(name, []), int(query.partition("=")[2] or 0)
            more = f'<{path}?page={page + 1}>; rel="next"' if listed[page + 1 :] else ""
            index = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": listed[page:][:1]}
            links = {"Link": more} if more else {}
            self.answer(200, json.dumps(index).encode(), Content_Type=INDEX_TYPE, **links)
        elif name in self.kept:
            body, kind = self.kept[name]
            self.answer(200, body, Content_Type=kind)
        else:
            self.answer(404)

    do_HEAD = do_GET  # noqa: N815

    def do_POST(self) -> None:
        self.answer(202, Location=f"{self.path}1")

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        digest, kind = f"sha256:{hashlib.sha256(body).hexdigest()}", self.headers["Content-Type"]
        self.kept[digest] = body, kind
        found = {}
        if "/manifests/" in self.path:
            self.kept[self.path.rsplit("/", 1)[1]] = body, kind
            manifest = json.loads(body)
            if self.lists and (subject := manifest.get("subject")):
                entry = {"mediaType": kind, "digest": digest, "size": len(body)}
                entry["artifactType"] = manifest["artifactType"]
                self.referrers.setdefault(subject["digest"], []).append(entry)
                found["OCI_Subject"] = subject["digest"]
        self.answer(201, **found)


@contextmanager
def run_listing_registry(lists: bool) -> Iterator[tuple[str, type[ListingRegistry]]]:
    """Yield the host of such a registry, and its content."""
    own = type("Own", (ListingRegistry,), {"kept": {}, "referrers": {}, "lists": lists})
    with ThreadingHTTPServer(("127.0.0.1", 0), own) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"127.0.0.1:{server.server_port}", own
        server.shutdown()
