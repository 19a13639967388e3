"""Finds the importer of files with a vendor's custom operators.

An installed package contains the importer. The name of the entry point is the name of the custom
operator. The value is a module with the functions of :class:`firmwright.models.formats.Importer`.
"""

from __future__ import annotations

from typing import Any, cast

from firmwright.errors import UserError
from firmwright.models.formats import Importer
from firmwright.models.tflite.checks import decode_text, operator_kinds
from firmwright.models.tflite.custom_calls import list_known_operators
from firmwright.plugins import list_tflite_vendors, load_plugin

COMPILERS = {
    "ethos-u": "Vela compiled the model for Arm Ethos-U",
    "edgetpu-custom-op": "Google's compiler compiled the model for the Edge TPU",
}
"""The custom operators that contain a vendor's program instead of layers."""


def find_vendor_importer(model: Any) -> Importer | None:
    """Return the importer for one of the file's custom operators, or None.

    Raises UserError if there are several importers.
    """
    names = list_custom_operators(model)
    points = {p.value: p for p in list_tflite_vendors() if p.name in names}
    if len(points) > 1:
        raise UserError(
            f"the custom operators of the model have several importers, {', '.join(sorted(points))}"
            "; uninstall all packages except one of them"
        )
    return next((cast(Importer, load_plugin(point)) for point in points.values()), None)


def list_custom_operators(model: Any) -> set[str]:
    graphs = map(model.Subgraphs, range(model.SubgraphsLength()))
    used = {g.Operators(i).OpcodeIndex() for g in graphs for i in range(g.OperatorsLength())}
    kinds = enumerate(operator_kinds(model))
    codes = (model.OperatorCodes(i) for i, kind in kinds if kind == "CUSTOM" and i in used)
    return {decode_text(code.CustomCode() or b"") for code in codes}


def refuse_custom_operators(model: Any, name: str) -> None:
    """Raise UserError if neither firmwright nor the recipe defines a custom operator."""
    known = list_known_operators()
    custom = sorted(list_custom_operators(model).difference(known))
    for operator in custom:
        if operator in COMPILERS:
            raise UserError(
                f"{name}: {COMPILERS[operator]} (custom operator '{operator}'); state the .tflite "
                "file from before that compiler, or install the package of firmwright for it"
            )
    if custom:
        example = f"{{{custom[0]}: {{function: …, reference: 'module:function'}}}}"
        raise UserError(
            f"{name}: custom operators that no installed package reads: {', '.join(custom)}; "
            f"define each in the recipe: `model: {{path: …, custom_operators: {example}}}`"
        )
