"""Reads exported programs, and explains in the user's terms why torch rejects a file.

No pickle of the file runs, because ``force_weights_only`` restricts ``torch.load``. A file with
pickled objects or compiled code is rejected. torch still advises against programs of unknown
origin, because torch evaluates their symbolic shape expressions.
"""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from firmwright.errors import UserError, first_line
from firmwright.models.formats import EXPORT_HINT
from firmwright.models.importing import suppress_output
from firmwright.models.pytorch.orders import state_order
from firmwright.models.pytorch.quantization import define_torchao

EXECUTABLE_MEMBER = re.compile(r"(^|/)(data/constants/(custom|opaque)_obj_|data/aotinductor/)")
"""Archive members from which torch unpickles any object or loads machine code."""

OPERATOR = re.compile(rb'"torch\.ops\.(\w+)\.(\w+)')

INCONSISTENCIES = (AttributeError, LookupError, TypeError, UnicodeDecodeError)
"""The exceptions that torch raises if a description is incomplete or contradicts the format."""

ANOTHER_FILE = f"fetch the file again, or export the model with torch {torch.__version__}"

PICKLED_CLASS = re.compile(r"GLOBAL (\S+)")
ESCAPE_CODE = re.compile(r"\x1b\[[0-9;]*m")


def explain_load(error: Exception) -> str:
    """Return the reason why torch rejects a file.

    torch's error names a pickled class only after advice that does not apply to firmwright.
    """
    match = PICKLED_CLASS.search(str(error))
    if not match and isinstance(error, INCONSISTENCIES):
        return (
            "its description of tensors or operators is damaged, or from another version of torch "
            f"({type(error).__name__}: {first_line(error)}); {ANOTHER_FILE}"
        )
    if not match and "Weights only load failed" in str(error):
        return f"its tensors are damaged; {ANOTHER_FILE}"
    if not match and "error when deserializing" in str(error):
        return (
            "its archive lacks a member of an exported program, or has a member outside of its "
            f"folder; {ANOTHER_FILE}"
        )
    if not match:
        return f"{ESCAPE_CODE.sub('', first_line(error))}; {ANOTHER_FILE}"
    pickled = match[1]
    reason = f"a tensor is an object of the class {pickled}, which would run code of that class"
    if not pickled.startswith("torchao."):
        return f"{reason}: export the model with plain tensors"
    return (
        f"{reason}: it is a tensor subclass of torchao; call "
        "torchao.utils.unwrap_tensor_subclass(model) before torch.export.export"
    )


def load_program(data: bytes, name: str) -> torch.export.ExportedProgram:
    """Read the file, but do not run its code.

    Raises UserError if the file is not an exported program.
    """
    check_archive(data, name)
    operators = list_operators(data, name)
    if any(namespace == "torchao" for namespace, _ in operators):
        define_torchao()
    refuse_unknown(operators, name)
    with suppress_output(), force_weights_only():
        try:
            program = torch.export.load(io.BytesIO(data))
            state_order(program)
            return program
        except Exception as error:  # torch raises exceptions of many types
            failure = explain_load(error)
    raise UserError(
        f"{name}: torch {torch.__version__} cannot read the program: {failure}; export the model "
        "with this version of torch"
    )


def list_operators(data: bytes, name: str) -> list[tuple[str, str]]:
    """Return the namespaces and names of the operators in a file's programs, sorted.

    Raises UserError if the archive is damaged.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            programs = [archive.read(n) for n in archive.namelist() if n.endswith(".json")]
    except Exception as error:
        raise UserError(f"{name}: a damaged archive: {first_line(error)}; {ANOTHER_FILE}") from None
    operators = {match.groups() for text in programs for match in OPERATOR.finditer(text)}
    return sorted((namespace.decode(), name.decode()) for namespace, name in operators)


def refuse_unknown(operators: Sequence[tuple[str, str]], name: str) -> None:
    """Raise UserError if the program has operators of packages that torch does not load."""
    unknown = [
        f"{namespace}.{operator}"
        for namespace, operator in operators
        if not hasattr(getattr(torch.ops, namespace), operator)
    ]
    if unknown:
        raise UserError(
            f"{name}: torch {torch.__version__} does not have operators of the program: "
            f"{', '.join(unknown)}; export the model with operators of torch (torch.ops.aten)"
        )


def check_archive(data: bytes, name: str) -> None:
    """Raise UserError with the type of the file if the file is not an exported program."""
    try:
        members = zipfile.ZipFile(io.BytesIO(data)).namelist()
    except (zipfile.BadZipFile, UnicodeDecodeError):  # zipfile decodes the names of the members
        what = "weights or a module, pickled" if data[:1] == b"\x80" else "a damaged file"
        raise UserError(f"{name}: not an exported program but {what}; {EXPORT_HINT}") from None
    if any("/code/" in m for m in members):
        raise UserError(f"{name}: not an exported program but TorchScript; {EXPORT_HINT}")
    if any(m.endswith("data.pkl") for m in members):
        raise UserError(f"{name}: not an exported program but pickled weights; {EXPORT_HINT}")
    if not any(m.endswith((".json", "archive_format")) for m in members):
        raise UserError(
            f"{name}: not an exported program but another kind of .zip file; {EXPORT_HINT}"
        )
    refused = [m for m in members if EXECUTABLE_MEMBER.search(m)]
    if refused:
        raise UserError(
            f"{name}: contains pickled objects or compiled code, which is not executed: "
            f"{refused[0]}; {EXPORT_HINT}"
        )


@contextmanager
def force_weights_only() -> Iterator[None]:
    """Restrict ``torch.load`` to tensors and plain containers, regardless of its arguments.

    For ``torch.export.load``, this restriction needs an environment variable of torch.
    """
    variable = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    before = os.environ.get(variable)
    os.environ[variable] = "1"
    try:
        yield
    finally:
        del os.environ[variable]
        if before is not None:
            os.environ[variable] = before
