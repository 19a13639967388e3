"""Functions of the user's own: ``module:function``, of a module beside the recipe."""

from __future__ import annotations

import importlib.util
import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from firmwright.data.sources import module_file
from firmwright.errors import UserError, did_you_mean


def load_function(name: str, folder: Path, key: str) -> Callable[..., Any]:
    """Import the function; ``key`` is where the recipe names it.

    What goes wrong in it, now or when it is called, is a UserError with file and line.
    """
    path = module_file(name, folder)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UserError(f"{key}: no such module: {path}")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UserError(f"{key}: {path} cannot be imported: {place(error)}") from error
    function = getattr(module, name.partition(":")[2], None)
    if not callable(function):
        known = [n for n in vars(module) if callable(getattr(module, n)) and n[0] != "_"]
        wanted = name.partition(":")[2]
        raise UserError(f"{key}: {path} has no function '{wanted}'{did_you_mean(wanted, known)}")

    @wraps(function)
    def reported(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception as error:
            raise UserError(f"{key}: {name} failed: {place(error)}") from error

    return reported


def place(error: BaseException) -> str:
    """Return file, line and text of an error in the user's code."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else ""
    return f"{where}{type(error).__name__}: {error}"
