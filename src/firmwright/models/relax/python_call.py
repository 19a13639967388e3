"""Calls the Python function of ``model: {python: "module:function"}``, which makes a model."""

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
    """Call ``module:function``, and return the network as JSON text of TVM (UTF-8).

    The function has no arguments and returns a Relax IRModule or a
    :class:`firmwright.builder.Graph`. ``known`` contains the files of ``folder`` that the function
    may read, because a change of these files runs the model stage again.

    Raises UserError with file and line if the user's code raises an exception. Raises UserError if
    the function does not exist, returns another type, or reads other files of the folder. Raises
    UserError if a second call returns another network.
    """
    first, opened = call_once(folder, reference)
    again, _ = call_once(folder, reference)
    refuse_unknown_files(reference, folder, opened, known)
    if first != again:
        raise UserError(
            f"{reference} returns a different network at each call; a build needs equal networks: "
            "set the seed of the function's random numbers"
        )
    return first


def call_once(folder: Path, reference: str) -> tuple[bytes, set[str]]:
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
    functions = sorted(module.functions.items(), key=lambda item: str(item[0].name_hint))
    graph = json.loads(tvm.ir.save_json(tvm.IRModule(dict(functions), attrs=module.attrs)))
    nothing = next(i for i, node in enumerate(graph["nodes"]) if node["type"] == "None")
    for node in graph["nodes"]:
        if isinstance(node.get("data"), dict) and "span" in node["data"]:
            node["data"]["span"] = nothing
    # The next load and save remove the nodes without references.
    return str(tvm.ir.save_json(tvm.ir.load_json(json.dumps(graph)))).encode()


def refuse_unknown_files(
    reference: str, folder: Path, opened: Collection[str], known: Collection[Path]
) -> None:
    """Raise UserError if the function read files whose changes do not run the model stage again."""
    names = list_unknown(opened, folder, known)
    if names:
        raise UserError(
            f"{reference} reads {', '.join(names)}, which the recipe does not list; add `files: "
            f"[{', '.join(names)}]` to `model:`, so that the build detects changes"
        )
