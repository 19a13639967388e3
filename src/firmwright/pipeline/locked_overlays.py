"""Writes the lock of a recipe with several overlays in one command.

The overlays of a recipe share the build folder, so their stages run one after the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from firmwright.documents.chain import Layers
from firmwright.errors import UserError
from firmwright.recipe.recipe import lock_path

from . import build_inputs
from .recipe_arguments import choose, find_recipes


def lock_in_turn(task_file: ModuleType, run: Callable[[], int]) -> int:
    """Call ``run`` once per list of recipes until a call fails, and return the last exit code.

    ``task_file`` makes the jobs. Raises UserError if one lock cannot be valid for two overlays.
    """
    turns = split_turns(find_recipes())
    if len(turns) > 1:
        refuse_other_files(task_file, turns)
    code = 0
    for turn in turns:
        with choose(task_file, turn):
            code = code or run()
    return code


def split_turns(recipes: list[Layers]) -> list[list[Layers]]:
    """Return lists of recipes that contain each file at most once."""
    turns: list[list[Layers]] = []
    for layers in recipes:
        free = [turn for turn in turns if layers.path not in {each.path for each in turn}]
        if free:
            free[0].append(layers)
        else:
            turns.append([layers])
    return turns or [[]]


def refuse_other_files(task_file: ModuleType, turns: list[list[Layers]]) -> None:
    """Raise UserError if a recipe reads different files with different overlays."""
    known: dict[Path, dict[str, set[Path]]] = defaultdict(lambda: defaultdict(set))
    for turn in turns:
        with choose(task_file, turn):
            for job in task_file.get_jobs():
                read = known[job.recipe.path][str(job.recipe.layers)]
                read.update(build_inputs.user_files(job))
    for path, by_layers in known.items():
        first, *rest = by_layers
        for other in rest:
            if by_layers[first] != by_layers[other]:
                both = f"{first} and {other}"
                advice = "write a recipe file for one of them, which extends the other"
                raise UserError(
                    f"{lock_path(path)}: {both} read different files, which one lock cannot have; "
                    f"{advice}"
                )
