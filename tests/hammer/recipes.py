"""Invalid recipes are rejected with a message, or become jobs.

``python -m tests.hammer.recipes [--count 10000] [--seconds S] [--seed 0] [--first 0]``
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
import traceback
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from firmwright.errors import UserError
from firmwright.pipeline import recipe_lock
from firmwright.pipeline.command_line import make_catalog, make_job
from firmwright.pipeline.ownership import refuse_taken_folder
from firmwright.pipeline.task import make_tasks
from firmwright.recipe.load_recipe import load_recipe
from firmwright.tasks.pipeline import PIPELINE
from tests.hammer.campaign import FindingError, OutOfTime, Watch, limit_time, run_campaign
from tests.hammer.mutators import Vocabulary, collect_words, mutate_yaml

ROOT = Path(__file__).parents[2]
FOLDERS = ("recipes", "examples", "docs/migration/recipes")
SECONDS = 120
"""Maximum seconds until a recipe is accepted or rejected."""


@cache
def read_bases() -> dict[Path, Any]:
    """Return the data of the repository's recipes by their paths, relative to its root."""
    found = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.yaml")))
    texts = {path.relative_to(ROOT): path.read_text("utf-8") for path in found}
    return {p: yaml.safe_load(text) for p, text in texts.items() if "\nmodel:" in f"\n{text}"}


@cache
def load_vocabulary() -> Vocabulary:
    """Return the vocabulary of the recipes' schema, and the repository's recipes."""
    schema = json.loads((ROOT / "recipes/recipe.schema.json").read_text("utf-8"))
    return Vocabulary(*collect_words(schema), [*read_bases().values()])


def draw_recipe(draw: random.Random) -> tuple[Path, bytes]:
    """Return the path of a recipe of the repository, and a changed recipe for that path."""
    base = draw.choice([*read_bases()])
    return base, mutate_yaml((ROOT / base).read_bytes(), draw, load_vocabulary())


class RecipeHammer:
    """Tries recipes in a copy of the folders that they read, all in this process."""

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
        """Process a recipe as the command line does before any stage runs."""
        try:
            recipe = load_recipe(path, {}, self.catalog)
            job = make_job(recipe, {}, self.folder / "build", PIPELINE, alone=False)
            refuse_taken_folder(job)
            list(make_tasks(job.all_jobs))
            list(recipe_lock.make_tasks([job]))
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
