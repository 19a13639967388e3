"""Runs Debian's docker-registry on this machine for one test."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class RunningRegistry:
    host: str
    folder: Path

    def find_blob(self, digest: str) -> Path:
        """Return the file in which the registry stores a blob or a manifest."""
        hexadecimal = digest.removeprefix("sha256:")
        blobs = self.folder / "docker/registry/v2/blobs/sha256"
        return blobs / hexadecimal[:2] / hexadecimal / "data"


@contextmanager
def run_registry(folder: Path, settings: Mapping[str, Any] = {}) -> Iterator[RunningRegistry]:
    """Start a registry on a free port; it stores its content in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    configuration = {
        "version": "0.1",
        "log": {"level": "info", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(folder)}},
        "http": {"addr": "127.0.0.1:0"},
        **settings,
    }
    file = folder / "config.yml"
    file.write_text(json.dumps(configuration))
    log = folder / "log"
    with (
        log.open("w") as said,
        subprocess.Popen(["docker-registry", "serve", str(file)], stderr=said) as running,
    ):
        try:
            while not (found := re.search(r"listening on ([\w.:]+)", log.read_text())):
                assert running.poll() is None, log.read_text()
                time.sleep(0.02)
            yield RunningRegistry(found[1], folder)
        finally:
            running.terminate()
