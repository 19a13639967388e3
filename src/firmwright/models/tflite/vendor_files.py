"""Finds the importer of files with a vendor's custom operators, which an installed package reads.

An entry point of the group has the name of the custom operator. Its value is a module with the
functions of :class:`firmwright.models.formats.Importer`.
"""

from __future__ import annotations

from typing import Any, cast

from firmwright.errors import UserError
from firmwright.models.formats import Importer
from firmwright.models.tflite.checks import decode_text
from firmwright.plugins import find_plugins

ENTRY_POINT_GROUP = "firmwright.tflite_operators"


def find_vendor_importer(model: Any) -> Importer | None:
    """Return the importer for one of the file's custom operators; None if no package has one."""
    names = list_custom_operators(model)
    points = (point for point in find_plugins(ENTRY_POINT_GROUP) if point.name in names)
    return next((cast(Importer, point.load()) for point in points), None)


def list_custom_operators(model: Any) -> set[str]:
    """Return the names of the custom operators of the first subgraph."""
    graph, codes = model.Subgraphs(0), range(model.OperatorCodesLength())
    used = {graph.Operators(i).OpcodeIndex() for i in range(graph.OperatorsLength())}
    names = (model.OperatorCodes(i).CustomCode() for i in codes if i in used)
    return {decode_text(name) for name in names if name}


def refuse_custom_operators(model: Any, name: str) -> None:
    """Raise UserError for custom operators, which only packages of their vendors can read."""
    if custom := sorted(list_custom_operators(model)):
        raise UserError(
            f"{name}: custom operators that no installed package reads: {', '.join(custom)}; "
            "state the .tflite file from before the vendor's compiler, or install its package"
        )
