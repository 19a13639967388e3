"""Calls the Python function that makes a model: ``model: {python: "module:function"}``."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import tvm

from firmwright.builder import Graph
from firmwright.custom.code import load_custom_function
from firmwright.custom.reads import list_unknown, record_reads
from firmwright.errors import UserError


def call_model(reference: str, folder: Path, known: Collection[Path]) -> bytes:
    """Call ``module:function`` and return its network as JSON text of TVM (UTF-8).

    The function has no arguments and returns a Relax IRModule or a
    :class:`firmwright.builder.Graph`. ``known`` are the files of ``folder`` that it may read,
    because their changes make the model stage run again.

    Raises UserError with the file and line of an exception in the user's code. Also raises
    UserError for a module or function that does not exist, and for a result of another type.
    The function is also rejected if it reads other files of the folder, or if its second call
    returns another network.
    """
    first, opened = call_once(folder, reference)
    again, _ = call_once(folder, reference)
    refuse_unknown_files(reference, folder, opened, known)
    if first != again:
        raise UserError(
            f"{reference} returns a different network at each call; a build has to be "
            "repeatable: seed its random numbers"
        )
    return first


def call_once(folder: Path, reference: str) -> tuple[bytes, set[str]]:
    """Import the module and call the function; return the network and the opened files."""
    with record_reads() as opened, load_custom_function(reference, folder) as network:
        return portable_json(to_module(network(), reference)), opened


def to_module(result: Any, reference: str) -> tvm.IRModule:
    if isinstance(result, Graph):
        return result.module()
    if isinstance(result, tvm.IRModule):
        return result
    raise UserError(
        f"{reference}: returned a {type(result).__name__}; expected a Relax IRModule "
        "(tvm.IRModule) or a firmwright.builder.Graph"
    )


def portable_json(module: tvm.IRModule) -> bytes:
    """Return the module as TVM's JSON, without the locations in source files."""
    functions = sorted(module.functions.items(), key=lambda item: str(item[0].name_hint))
    graph = json.loads(tvm.ir.save_json(tvm.IRModule(dict(functions), attrs=module.attrs)))
    nothing = next(i for i, node in enumerate(graph["nodes"]) if node["type"] == "None")
    for node in graph["nodes"]:
        if isinstance(node.get("data"), dict) and "span" in node["data"]:
            node["data"]["span"] = nothing
    # Loading and saving again removes the nodes without references.
    return str(tvm.ir.save_json(tvm.ir.load_json(json.dumps(graph)))).encode()


def refuse_unknown_files(
    reference: str, folder: Path, opened: Collection[str], known: Collection[Path]
) -> None:
    """Raise UserError if the function read files that do not make the model stage run again."""
    names = list_unknown(opened, folder, known)
    if names:
        raise UserError(
            f"{reference} reads {', '.join(names)} in the recipe's folder, which the recipe does "
            f"not name; add `files: [{', '.join(names)}]` to `model:`, so that a change of it is "
            "noticed"
        )
