"""The built-in recipes find their files by addresses alone, without a mirror folder."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from firmwright.data.fetch import find_in_mirror
from firmwright.models import FORMATS
from firmwright.pipeline.command_line import make_catalog
from firmwright.recipe.load_recipe import load_recipe
from firmwright.targets.load_devices import load_target
from tests.ready_recipes import read_ready

from .conftest import ROOT, Repository

pytestmark = pytest.mark.fresh

RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))
DOWNLOADING = [path for path in RECIPES if "url" in read_ready(path.stem)["model"]]


def find_files(part: Any) -> Iterator[dict[str, str]]:
    """Yield every entry of a recipe that states the digest of a file."""
    if isinstance(part, dict):
        if "sha256" in part:
            yield part
        part = list(part.values())
    for entry in part if isinstance(part, list) else ():
        yield from find_files(entry)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_every_file_of_a_ready_recipe_has_an_address(recipe: Path) -> None:
    data = read_ready(recipe.stem)
    assert "package:" not in str(data)  # no file that only an optional package contains
    for file in find_files(data):
        assert file["url"].startswith("https://github.com/")


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_ready_recipe_needs_what_the_first_line_of_the_readme_installs(path: Path) -> None:
    text = (ROOT / "constraints.txt").read_text()
    installed = set(re.findall(r"^([a-z0-9-]+)==", text, re.MULTILINE))
    recipe = load_recipe(path, {}, make_catalog())
    assert set(FORMATS[str(recipe.model.format)].packages) <= installed
    for device in (*recipe.target, *recipe.compare):
        assert set(load_target(device.name).packages) <= installed


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of a server with the files that built-in recipes name, at their paths."""
    folder = tmp_path / "server"
    for file in find_files([read_ready(path.stem) for path in RECIPES]):
        data = find_in_mirror(Path(file["url"]).name, file["sha256"])
        if data is None:
            pytest.skip(f"no folder of FIRMWRIGHT_MIRROR holds {file['url']}")
        path = folder / urlsplit(file["url"]).path[1:]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def test_the_addresses_of_all_ready_recipes_suffice(server: str, tmp_path: Path) -> None:
    environment = {n: v for n, v in os.environ.items() if n != "FIRMWRIGHT_MIRROR"}
    repository = Repository(tmp_path / "repository", environment)
    repository.folder.mkdir()
    repository.write("dodo.py", "from firmwright.tasks.dodo import *\n")
    folder = ROOT / "recipes"
    for path in (*folder.rglob("*.yaml"), folder / "coco-classes.txt"):
        text = path.read_text().replace("https://github.com", server)
        repository.write(str(path.relative_to(folder)), text)
    stages = ("model", "samples", "calibration")  # the stages that read the files of recipes
    done = repository.doit(*stages, f"recipe={','.join(path.name for path in DOWNLOADING)}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list(repository.folder.glob("build/*/model/module.json"))) == len(DOWNLOADING)
