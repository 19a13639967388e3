"""Explains in the user's terms why torch rejects a file."""

from __future__ import annotations

import re

import torch

from firmwright.errors import first_line

INCONSISTENCIES = (AttributeError, LookupError, TypeError, UnicodeDecodeError)
"""The exceptions that torch raises if a description is incomplete or contradicts the format."""

ANOTHER_FILE = f"fetch the file again, or export the model with torch {torch.__version__}"

PICKLED_CLASS = re.compile(r"GLOBAL (\S+)")
ESCAPE_CODE = re.compile(r"\x1b\[[0-9;]*m")


def explain_load(error: Exception) -> str:
    """Return the reason why torch rejects a file.

    torch's error names a pickled class only after advice that does not apply to firmwright.
    """
    found = PICKLED_CLASS.search(str(error))
    if not found and isinstance(error, INCONSISTENCIES):
        return (
            "its description of tensors or operators is damaged, or from another version of torch "
            f"({type(error).__name__}: {first_line(error)}); {ANOTHER_FILE}"
        )
    if not found and "Weights only load failed" in str(error):
        return f"its tensors are damaged; {ANOTHER_FILE}"
    if not found and "error when deserializing" in str(error):
        return (
            "its archive lacks a member of an exported program, or has a member outside of its "
            f"folder; {ANOTHER_FILE}"
        )
    if not found:
        return f"{ESCAPE_CODE.sub('', first_line(error))}; {ANOTHER_FILE}"
    pickled = found[1]
    reason = f"a tensor is an object of the class {pickled}, which would run code of that class"
    if not pickled.startswith("torchao."):
        return f"{reason}: export the model with plain tensors"
    return (
        f"{reason}: it is a tensor subclass of torchao; call "
        "torchao.utils.unwrap_tensor_subclass(model) before torch.export.export"
    )
