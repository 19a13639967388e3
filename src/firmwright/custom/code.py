"""Imports and calls custom Python code: ``module:function``, as a recipe names functions.

The module is a file in the recipe's folder or an installed module. The import works as if Python
had been started in the recipe's folder. Afterwards the module is removed, because each of two
recipes may have a ``network.py``. Python writes no file next to the module, and reads no stale byte
code.
"""

from __future__ import annotations

import ast
import importlib
import linecache
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any

from firmwright.errors import UserError, did_you_mean, first_line

from .reads import is_recipe_file, record_reads

IMPORT_LOCK = RLock()
"""Protects ``sys.path`` and ``sys.modules``, which all threads share. The lock is reentrant,
because custom code may load other custom code.
"""


@contextmanager
def load_custom_function(reference: str, folder: Path) -> Iterator[Callable[..., Any]]:
    """Yield the function ``module:function`` of the recipe's ``folder`` for calls in the block.

    Raises UserError if the module or the function does not exist. An exception of the import or of
    the call becomes a UserError with the file and the line of the custom code.
    """
    with load_custom_functions(folder) as function:
        yield function(reference)


@contextmanager
def load_custom_functions(folder: Path) -> Iterator[Callable[[str], Callable[..., Any]]]:
    """Yield a loader of functions of the recipe's ``folder``. The functions can import each other.

    Raises the errors of :func:`load_custom_function`.
    """

    def load(reference: str) -> Callable[..., Any]:
        function = import_function(reference, folder)
        return lambda *given: run_custom_code(lambda: function(*given), reference, folder)

    with IMPORT_LOCK, prepend_import_path(folder):
        yield load


@contextmanager
def prepend_import_path(folder: Path) -> Iterator[None]:
    """Put ``folder`` first in the import path of the block, and unload its modules at the end."""
    root = str(folder.resolve())
    path, byte_code = list(sys.path), (sys.dont_write_bytecode, sys.pycache_prefix)
    sys.path.insert(0, root)
    # This prefix cannot be a folder. Python neither finds nor writes byte code there.
    sys.dont_write_bytecode, sys.pycache_prefix = True, os.devnull
    importlib.invalidate_caches()
    linecache.clearcache()  # TVMScript reads the module's source text through linecache
    before = dict(sys.modules)
    try:
        with record_reads():
            yield
    finally:
        sys.path[:] = path
        sys.dont_write_bytecode, sys.pycache_prefix = byte_code
        # Complete the list before the deletions, because a package without a file needs its parent
        # in sys.modules.
        modules = [name for name, each in sys.modules.items() if name not in before
                   and is_module_in(each, root)]  # fmt: skip
        for name in modules:
            del sys.modules[name]


def is_module_in(module: ModuleType, root: str) -> bool:
    # Read __dict__, not attributes, because some of torch's modules have an attribute for every
    # name.
    stated = getattr(module, "__dict__", {})
    paths = [stated.get("__file__"), *(stated.get("__path__") or ())]
    return any(p and is_recipe_file(p, root) for p in paths)


def import_function(reference: str, folder: Path) -> Callable[..., Any]:
    module_name, _, function_name = reference.partition(":")
    refuse_taken_name(module_name, folder)
    module = run_custom_code(lambda: importlib.import_module(module_name), reference, folder)
    function = getattr(module, function_name, None)
    if not callable(function):
        functions = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        hint = did_you_mean(function_name, functions)
        raise UserError(f"{reference}: {module_name} has no function '{function_name}'{hint}")
    return function  # type: ignore[no-any-return]


def refuse_taken_name(module: str, folder: Path) -> None:
    """Raise UserError if Python would return a loaded module instead of the user's file."""
    name = module.partition(".")[0]
    file = next((p for p in (folder / f"{name}.py", folder / name) if p.exists()), None)
    loaded = sys.modules.get(name)
    if file and loaded and not is_module_in(loaded, str(folder.resolve())):
        raise UserError(f"{file}: a module named '{name}' is loaded already; rename the file")


def run_custom_code(action: Any, reference: str, folder: Path) -> Any:
    """Run the custom code. Raises UserError with the location of an exception."""
    try:
        return action()
    except (Exception, SystemExit) as error:
        raise UserError(explain_error(error, reference, folder)) from None


def explain_error(error: BaseException, reference: str, folder: Path) -> str:
    """Return ``file:line: Kind: message`` for the last line of custom code in the traceback."""
    module = reference.partition(":")[0]
    if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
        return (
            f"{reference}: no module '{error.name}': neither in {format_folder(folder)}, the "
            "recipe's folder, nor installed"
        )
    what = f"{type(error).__name__}: {first_line(error)}"
    root = str(folder.resolve())
    if isinstance(error, SyntaxError) and error.filename:
        return (
            f"{format_path(error.filename, root, folder)}:{error.lineno}: {error.msg} ({reference})"
        )
    frames = traceback.extract_tb(error.__traceback__)
    user_frames = [f for f in frames if f.filename.startswith(root + os.sep)]
    others = [f for f in frames if f.filename != __file__ and not f.filename.startswith("<frozen")]
    if not user_frames + others:
        return f"{locate_definition(reference, folder)}: {what} ({reference})"
    frame = (user_frames or others)[-1]
    return f"{format_path(frame.filename, root, folder)}:{frame.lineno}: {what} ({reference})"


def locate_definition(reference: str, folder: Path) -> str:
    """Return ``file:line:column`` of a function's definition, or only the file."""
    module, _, function = reference.partition(":")
    file = folder / Path(*module.split(".")).with_suffix(".py")
    tree = ast.parse(file.read_bytes()) if file.is_file() else ast.Module([], [])
    kinds = (ast.FunctionDef, ast.ClassDef)
    nodes = [n for n in tree.body if isinstance(n, kinds) and n.name == function]
    return f"{file}:{nodes[-1].lineno}:{nodes[-1].col_offset + 1}" if nodes else str(file)


def locate_function(function: Any, reference: str, folder: Path) -> str:
    code = getattr(function, "__code__", None)
    if code is None:  # a class, a partial
        return locate_definition(reference, folder)
    return f"{format_path(code.co_filename, str(folder.resolve()), folder)}:{code.co_firstlineno}"


def format_path(filename: str, root: str, folder: Path) -> str:
    """Return a file's path as the user would write it. Paths outside the folder are unchanged."""
    path = Path(filename)
    return str(folder / path.relative_to(root)) if path.is_relative_to(root) else filename


def format_folder(folder: Path) -> str:
    return "this folder" if folder == Path() else str(folder)
