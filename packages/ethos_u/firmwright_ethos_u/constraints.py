"""Finds the constraint of Vela that a network violates."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any


def find_broken_constraint(network: bytes) -> str:
    """Return Vela's sentence about the first unsupported operator, or ''.

    The error of Vela's compiler core contains only the operator. Vela's Python front end has a
    function for each constraint, and its docstring is the sentence. If the front end cannot read
    the network, the constraint is unknown.
    """
    from ethosu.vela.tflite_reader import read_tflite
    from ethosu.vela.tflite_supported_operators import TFLiteSupportedOperators

    supported = TFLiteSupportedOperators()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "network.tflite")
        file.write_bytes(network)
        try:
            graph = read_tflite(str(file), 1, {}, set(), set())
        except Exception:
            return ""
    operators = (op for part in graph.subgraphs for op in part.get_all_ops())
    known = (op for op in operators if op.type in supported.supported_operators)
    sentences = (describe_broken(supported, op) for op in known)
    return next(filter(None, sentences), "")


def describe_broken(supported: Any, operator: Any) -> str:
    """Return the sentence and the values of the first constraint that an operator violates."""
    exceptions = supported.generic_constraints_exceptions[operator.type]
    general = [c for c in supported.generic_constraints if c not in exceptions]
    for constraint in general + supported.specific_constraints[operator.type]:
        valid, found = constraint(operator)
        if not valid:
            return f"{constraint.__doc__} ({found})"
    return ""
