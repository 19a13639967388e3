"""A model that a Python function makes: ``model: {python: "module:function"}``.

The module is a file of the recipe's folder or an installed one. It is imported as if Python had
been started in that folder, and forgotten afterwards: two recipes may have a ``network.py`` each.
Nothing is written beside it, no stale byte code is read.
"""

from __future__ import annotations

import importlib
import json
import linecache
import os
import sys
import traceback
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any

import tvm

from firmwright.builder import Graph
from firmwright.errors import UserError, did_you_mean, first_line

ONE_AT_A_TIME = Lock()
"""Python has one ``sys.path`` and one ``sys.modules``."""

OPENED: ContextVar[set[str] | None] = ContextVar("OPENED", default=None)
"""The real paths of the files that are opened for reading, while somebody wants to know."""


def call_model(reference: str, folder: Path, known: Collection[Path]) -> bytes:
    """Call ``module:function`` and return its network as JSON text of TVM (UTF-8).

    The function takes no arguments and returns a Relax IRModule or a
    :class:`firmwright.builder.Graph`. ``known`` are the files of ``folder`` that it may read: those
    whose changes make the model stage run again.

    Raises UserError with the user's own error at file and line; for a module or function that does
    not exist; for another result; for a function that reads other files of the folder, or gives
    another network when it is called again.
    """
    with ONE_AT_A_TIME:
        first, opened = called_in(folder, reference)
        again, _ = called_in(folder, reference)
    refuse_unknown_files(reference, folder, opened, known)
    if first != again:
        raise UserError(
            f"{reference} gives another network each time it is called; a build has to be "
            "repeatable: give its random numbers a seed"
        )
    return first


def called_in(folder: Path, reference: str) -> tuple[bytes, set[str]]:
    """Import afresh and call; return the network and the files that were opened."""
    opened: set[str] = set()
    with importing_from(folder):
        token = OPENED.set(opened)
        try:
            result = call(reference, folder)
            return portable_json(module_of(result, reference)), opened
        finally:
            OPENED.reset(token)


@contextmanager
def importing_from(folder: Path) -> Iterator[None]:
    """Let ``folder`` come first when modules are looked up; forget its modules afterwards."""
    root = str(folder.resolve())
    path, byte_code = list(sys.path), (sys.dont_write_bytecode, sys.pycache_prefix)
    sys.path.insert(0, root)
    # A prefix that cannot be a folder: byte code there is neither found nor written.
    sys.dont_write_bytecode, sys.pycache_prefix = True, os.devnull
    importlib.invalidate_caches()
    linecache.clearcache()  # TVMScript reads its own source through it
    before = dict(sys.modules)
    try:
        yield
    finally:
        sys.path[:] = path
        sys.dont_write_bytecode, sys.pycache_prefix = byte_code
        for name, module in list(sys.modules.items()):
            if name not in before and lies_in(module, root):
                del sys.modules[name]


def lies_in(module: ModuleType, root: str) -> bool:
    places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
    return any(p and is_own(p, root) for p in places)


def is_own(path: str, root: str) -> bool:
    """Tell a file of the recipe's folder from one of a virtual environment inside it."""
    real, environment = Path(path).resolve(), Path(sys.prefix).resolve()
    inside_environment = environment.is_relative_to(root) and real.is_relative_to(environment)
    return real.is_relative_to(root) and not inside_environment


def note_opened(event: str, arguments: tuple[Any, ...]) -> None:
    opened = OPENED.get()
    if opened is None or event != "open" or not isinstance(arguments[0], str | bytes | os.PathLike):
        return
    writes_only = arguments[2] & (os.O_WRONLY | os.O_RDWR) == os.O_WRONLY
    if not writes_only:
        opened.add(os.path.realpath(os.fsdecode(arguments[0])))


sys.addaudithook(note_opened)


def call(reference: str, folder: Path) -> Any:
    """Return what the function returns."""
    module_name, _, function_name = reference.partition(":")
    refuse_taken_name(module_name, folder)
    module = guarded(lambda: importlib.import_module(module_name), reference, folder)
    function = getattr(module, function_name, None)
    if not callable(function):
        functions = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        hint = did_you_mean(function_name, functions)
        raise UserError(f"{reference}: {module_name} has no function '{function_name}'{hint}")
    return guarded(function, reference, folder)


def refuse_taken_name(module: str, folder: Path) -> None:
    """Python would give the module that is loaded already, not the user's file."""
    name = module.partition(".")[0]
    file = next((p for p in (folder / f"{name}.py", folder / name) if p.exists()), None)
    loaded = sys.modules.get(name)
    if file and loaded and not lies_in(loaded, str(folder.resolve())):
        raise UserError(f"{file}: a module named '{name}' is loaded already; rename the file")


def guarded(action: Any, reference: str, folder: Path) -> Any:
    """Run the user's code; say what it raises, and where, as a user error."""
    try:
        return action()
    except (Exception, SystemExit) as error:
        raise UserError(explained(error, reference, folder)) from None


def explained(error: BaseException, reference: str, folder: Path) -> str:
    """Return ``file:line: Kind: what it says`` of the last line of the user's that was reached."""
    module = reference.partition(":")[0]
    if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
        return (
            f"{reference}: no module '{error.name}': neither in {shown_folder(folder)}, the "
            "recipe's folder, nor installed"
        )
    what = f"{type(error).__name__}: {first_line(error)}"
    root = str(folder.resolve())
    if isinstance(error, SyntaxError) and error.filename:
        return f"{shown(error.filename, root, folder)}:{error.lineno}: {error.msg} ({reference})"
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if f.filename.startswith(root + os.sep)]
    others = [f for f in frames if f.filename != __file__ and not f.filename.startswith("<frozen")]
    place = (own or others or frames)[-1]
    return f"{shown(place.filename, root, folder)}:{place.lineno}: {what} ({reference})"


def shown(filename: str, root: str, folder: Path) -> str:
    """Return a file of the recipe's folder as the user would name it."""
    path = Path(filename)
    return str(folder / path.relative_to(root)) if path.is_relative_to(root) else filename


def shown_folder(folder: Path) -> str:
    return "this folder" if folder == Path() else str(folder)


def module_of(result: Any, reference: str) -> tvm.IRModule:
    if isinstance(result, Graph):
        return result.module()
    if isinstance(result, tvm.IRModule):
        return result
    raise UserError(
        f"{reference}: returned a {type(result).__name__}; expected a Relax IRModule "
        "(tvm.IRModule) or a firmwright.builder.Graph"
    )


def portable_json(module: tvm.IRModule) -> bytes:
    """Return the module as TVM's JSON, without the places in source files that it came from."""
    functions = sorted(module.functions.items(), key=lambda item: str(item[0].name_hint))
    graph = json.loads(tvm.ir.save_json(tvm.IRModule(dict(functions), attrs=module.attrs)))
    nothing = next(i for i, node in enumerate(graph["nodes"]) if node["type"] == "None")
    for node in graph["nodes"]:
        if isinstance(node.get("data"), dict) and "span" in node["data"]:
            node["data"]["span"] = nothing
    # Loaded and saved again, it loses the nodes that nothing refers to any more.
    return str(tvm.ir.save_json(tvm.ir.load_json(json.dumps(graph)))).encode()


def refuse_unknown_files(
    reference: str, folder: Path, opened: Collection[str], known: Collection[Path]
) -> None:
    """A file that the build does not know of could change without the model being made anew."""
    root = str(folder.resolve())
    allowed = {os.path.realpath(p) for p in known}
    inside = [p for p in sorted(opened) if is_own(p, root) and p not in allowed]
    names = [Path(p).relative_to(root).as_posix() for p in inside if Path(p).is_file()]
    if names:
        raise UserError(
            f"{reference} reads {', '.join(names)} in the recipe's folder, which the recipe does "
            f"not name; add `files: [{', '.join(names)}]` to `model:`, so that a change of it is "
            "noticed"
        )
