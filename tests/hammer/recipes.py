"""Recipes that are wrong in some way are refused in words, or become jobs: nothing else.

``python -m tests.hammer.recipes [--count 10000] [--seconds S] [--seed 0] [--first 0]``
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from firmwright.errors import UserError
from firmwright.pipeline import lock
from firmwright.pipeline.command_line import make_catalog, make_job
from firmwright.pipeline.ownership import refuse_taken_folder
from firmwright.pipeline.task import make_tasks
from firmwright.recipe import load_recipe
from firmwright.tasks.pipeline import PIPELINE
from tests.hammer.campaign import FindingError, OutOfTime, Watch, limit_time, run_campaign

ROOT = Path(__file__).parents[2]
FOLDERS = ("recipes", "examples", "docs/migration/recipes")
SECONDS = 120
"""A recipe is refused or taken in less."""

ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 5, 1.5, -0.0, float("inf"), float("nan"), 2**31, 2**63, 10**30,
    "", " ", "~", "0", "-1", "1e999", "a b", "a\nb", "\x00", "\x1b[2J", "é" * 300, "\u202e",
    "../..", "/", ".", "..", "/dev/zero", "/etc/passwd", "a" * 5000, ":", "a:", ":b", "a:b",
    "os:abort", "a.b:c", "*", "**/*", "[", "%s", "{0}", "$(touch x)", "`x`", "c -a=b", "c, c", "-",
    "soma_dory", "http://[", "https://h/x.onnx", "128 KiB", "1 XiB", [], {}, [[]], [{}], {"": ""},
    [None], [1.5], {"a": 1}, {"python": ":"}, {"path": "x"}, {"path": "../x", "sha256": "0" * 64},
    ["a", "a"],
)  # fmt: skip
MARKS = (": ", "- ", "\n", "\n  ", "[", "]", "{", "}", "&a ", "*a", "<<: ", "'", '"', "#", "!!int ",
         "!x ", "? ", "---\n", "%", "\t", "|", ">", "\x00", "\ufeff", "\u2028", "é")  # fmt: skip


@cache
def read_bases() -> dict[Path, Any]:
    """Return the data of the repository's recipes, by their places as seen from its root."""
    found = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.yaml")))
    texts = {path.relative_to(ROOT): path.read_text("utf-8") for path in found}
    return {p: yaml.safe_load(text) for p, text in texts.items() if "\nmodel:" in f"\n{text}"}


@cache
def collect_words() -> tuple[list[str], list[Any]]:
    """Return the schema's keys, and the values that it has as examples, defaults and choices."""
    keys: set[str] = set()
    values: list[Any] = []

    def walk(part: Any) -> None:
        if isinstance(part, dict):
            keys.update(part.get("properties", ()))
            values.extend([*part.get("enum", ()), *part.get("examples", ())])
            values.extend([part["default"]] if "default" in part else ())
        for inner in part.values() if isinstance(part, dict) else part:
            if isinstance(inner, (dict, list)):
                walk(inner)

    walk(json.loads((ROOT / "recipes/recipe.schema.json").read_text("utf-8")))
    return sorted(keys), values


def list_places(data: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container with each of its keys or indices."""
    entries = data.items() if isinstance(data, dict) else enumerate(data)
    for key, inner in list(entries):
        yield data, key
        if isinstance(inner, (dict, list)):
            yield from list_places(inner)


def draw_value(draw: random.Random) -> Any:
    """Return something odd, something of the schema's, or a part of another recipe."""
    kind = draw.randrange(3)
    if kind == 0:
        return deepcopy(draw.choice(ODD))
    if kind == 1:
        return deepcopy(draw.choice(collect_words()[1]))
    container, key = draw.choice(list(list_places(draw.choice([*read_bases().values()]))))
    return deepcopy(container[key])


def mutate(data: Any, draw: random.Random) -> None:
    """Change one thing in a recipe's data."""
    places = list(list_places(data))
    if not places:
        return
    container, key = draw.choice(places)
    change = draw.randrange(6)
    if change == 0:
        del container[key]
    elif change == 1 and isinstance(container, dict):
        container[draw.choice(collect_words()[0])] = draw_value(draw)
    elif change == 2 and isinstance(container, dict):
        container[draw.choice([*collect_words()[0], "x", 1, None, ""])] = container.pop(key)
    elif change == 3 and isinstance(container, list):
        container.append(deepcopy(container[key]))
    elif change == 4:
        container[key] = draw.choice([[container[key]], {"a": container[key]}])
    else:
        container[key] = draw_value(draw)


def mutate_text(text: str, draw: random.Random) -> bytes:
    """Change characters or bytes of a recipe's text."""
    start = draw.randrange(len(text) + 1)
    end = min(len(text), start + draw.randrange(20))
    text = text[:start] + draw.choice([*MARKS, "", text[start:end] * 2]) + text[end:]
    content = bytearray(text.encode("utf-8", "surrogatepass"))
    if content and draw.randrange(4) == 0:
        content[draw.randrange(len(content))] = draw.randrange(256)
    return bytes(content)


def draw_recipe(draw: random.Random) -> tuple[Path, bytes]:
    """Return the place of a recipe of the repository, and a wrong one for that place."""
    base = draw.choice([*read_bases()])
    text = (ROOT / base).read_text("utf-8")
    if draw.randrange(4):
        data = deepcopy(read_bases()[base])
        for _ in range(draw.randint(1, 4)):
            mutate(data, draw)
        text = yaml.safe_dump(data, allow_unicode=True, sort_keys=False)
        if draw.randrange(4):
            return base, text.encode("utf-8", "surrogatepass")
    return base, mutate_text(text, draw)


class RecipeHammer:
    """Tries recipes in a copy of the folders that they read; all in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in FOLDERS:
            left_out = shutil.ignore_patterns("__pycache__", "build", "*.lock")
            shutil.copytree(ROOT / name, folder / name, ignore=left_out)
        self.catalog = make_catalog()
        self.watch = Watch(folder)

    def try_case(self, draw: random.Random) -> str:
        base, content = draw_recipe(draw)
        path = (self.folder / base).with_name("mutant.yaml")
        path.write_bytes(content)
        try:
            with self.watch.during_case(), limit_time(SECONDS):
                return self.load(path)
        except OutOfTime:
            raise FindingError(f"more than {SECONDS} s for\n{content!r}") from None
        except FindingError as finding:
            raise FindingError(f"{finding}\n{content!r}") from None
        except Exception:
            raise FindingError(f"{traceback.format_exc()}\n{content!r}") from None

    def load(self, path: Path) -> str:
        """Do with a recipe what the command line does before any stage runs."""
        try:
            recipe = load_recipe(path, {}, self.catalog)
            job = make_job(recipe, {}, self.folder / "build", PIPELINE, alone=False)
            refuse_taken_folder(job)
            list(make_tasks(job.all_jobs))
            list(lock.make_tasks([job]))
        except UserError as error:
            if not str(error).strip():
                raise FindingError("refused without a word") from None
            return "refused"
        return "accepted"


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        hammer = RecipeHammer(Path(folder))
        return run_campaign("tests.hammer.recipes", hammer.try_case, arguments, 10_000)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
