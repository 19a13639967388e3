"""Runs TVM's importers without output, checks the order of graphs, and raises common errors."""

from __future__ import annotations

import gc
import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from firmwright.errors import DiagnosticError, UserError, did_you_mean, first_line
from firmwright.ir.tensors import ELEMENT_BYTES

if TYPE_CHECKING:
    from firmwright.ir.nodes import IRModule


@contextmanager
def suppress_output() -> Iterator[None]:
    """Drop all output of the block to stdout and stderr, including the output of C++ code.

    Python warnings are ignored separately, because a build redirects ``sys.stderr``.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {descriptor: os.dup(descriptor) for descriptor in (1, 2)}
    sink = os.open(os.devnull, os.O_WRONLY)
    try:
        for descriptor in kept:
            os.dup2(sink, descriptor)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        for descriptor, original in kept.items():
            os.dup2(original, descriptor)
            os.close(original)
        os.close(sink)


def run_importer(name: str, convert: Callable[[], IRModule]) -> IRModule:
    """Return the module that ``convert`` imports from the model ``name``.

    Raises UserError if ``convert`` fails.
    """
    with suppress_output():
        try:
            return convert()
        except UserError as error:
            failure = str(error)
        except Exception as error:
            failure = f"cannot import the graph: {first_line(error)}"
        # The importers are in reference cycles, and the destructor of TVM's block builder prints a
        # warning.
        gc.collect()
    raise UserError(f"{name}: {failure}")


@contextmanager
def label_errors(label: str) -> Iterator[None]:
    """Add a label to errors of the block that do not have a location in the recipe."""
    try:
        yield
    except DiagnosticError:
        raise
    except UserError as error:
        raise UserError(f"{label}: {error}") from None


def refuse_operators(name: str, lines: Iterable[str], advice: str = "") -> NoReturn:
    """Raise UserError with the operators that cannot be compiled, and with advice."""
    heading = f"{name}: operators that cannot be compiled:"
    advice = advice or "export the model with other operators, or end it before these operators"
    raise UserError("\n".join([heading, *lines, f"  {advice}"]))


def check_input_names(name: str, stated: Iterable[str], inputs: Iterable[str]) -> None:
    """Raise UserError if the recipe states the shape of an unknown input."""
    known = set(inputs)
    for label in sorted(set(stated) - known):
        hint = did_you_mean(label, known)
        raise UserError(f"{name}: inputs: the model has no input '{label}'{hint}")


def refuse_shape(
    name: str,
    label: str,
    shape: Sequence[object],
    declared: object,
    advice: str = "the recipe can fix only dimensions that have a name",
) -> NoReturn:
    """Raise UserError, because the recipe's shape does not fit the model's input."""
    problem = f"shape {list(shape)} does not fit the model's {declared}"
    raise UserError(f"{name}: inputs: {label}: {problem}; {advice}")


def check_element_type(name: str, label: str, dtype: str) -> None:
    """Raise UserError if the generated C has no type for the elements of an input or output."""
    if dtype not in ELEMENT_BYTES:
        known = ", ".join(sorted(ELEMENT_BYTES))
        raise UserError(f"{name}: '{label}' is {dtype}, which is not supported; expected {known}")


def refuse_open_shape(name: str, label: str, declared: object) -> NoReturn:
    """Raise UserError for an input or output of dynamic shape.

    The message names the key for the shape.
    """
    raise UserError(
        f"{name}: '{label}' has the dynamic shape {declared}; firmware needs a fixed shape: "
        f"state `inputs: {{{label}: {{shape: [1, …]}}}}` in the recipe"
    )


TVM_TERMS = (
    (re.compile(r"T\.u?int\d+\((-?\d+)\)"), r"\1"),
    (re.compile(r"R\.shape\((\[[^]]*\])\)"), r"\1"),
    (re.compile(r'metadata\["[\w.]+"\]\[\d+\]'), "is a constant with a different shape"),
    (re.compile(r"^In relax\.[\w.]+, "), ""),
)
"""Patterns of TVM's messages, and replacements in plain terms."""


INTERNAL = re.compile(
    r"<class|'\w*' object|object is not|object of type|NoneType|\btvm\b|\btir\b|\brelax\b"
    r"|Check failed|InternalError|metadata\[|\b[RT]\.\w|\blv\d|\bunpack|positional argument"
    r"|keyword argument|\bout of range$|argument must be|\bindices must be|\binvalid literal"
)
"""Matches texts of errors in the code of a library, which do not describe the model."""


def describe_failure(error: Exception) -> str:
    """Return the first line of a converter's error. Errors of other libraries also get a remedy."""
    if isinstance(error, UserError):
        return first_line(error)
    return f"{plain_failure(error)}; replace the operator, or end the model before the operator"


def plain_failure(error: Exception) -> str:
    """Return the first line of a converter's error, without terms of TVM and of Python."""
    text = first_line(error).rstrip(".")
    if isinstance(error, KeyError):  # the text of a KeyError is only the key
        return f"the value {text} is unknown"
    for internal, plain in TVM_TERMS:
        text = internal.sub(plain, text)
    if not str(error).strip() or INTERNAL.search(text):
        return "this form of the operator cannot be compiled"
    return text


def variable_name(source: str) -> str:
    """Return the name hint of a result.

    TVM renames its function ``main`` if a name hint is ``main``.
    """
    return f"{source}_" if source == "main" else source


MAX_PROBLEMS = 20


@dataclass(frozen=True)
class GraphNode:
    """An operator with its label in messages, and the tensors that it reads and writes."""

    label: str
    reads: tuple[Hashable, ...]
    writes: tuple[Hashable, ...]


def order_problems(
    known: Iterable[Hashable],
    nodes: Sequence[GraphNode],
    outputs: Sequence[Hashable],
    shown: Mapping[Hashable, str] | None = None,
) -> list[str]:
    """Return the problems of a graph's order, one line per problem.

    ``known`` contains the inputs and constants. ``shown`` maps tensors to names for messages, if
    the identifiers of tensors are not names.
    """
    given = set(known)
    labels = shown or {}
    writers: dict[Hashable, str] = {}
    problems = []
    for node in nodes:
        for tensor in node.writes:
            label = labels.get(tensor, tensor)
            if tensor in given:
                problems.append(f"{node.label} writes '{label}', which is an input or constant")
            elif tensor in writers:
                problems.append(
                    f"'{label}' is written twice: by {writers[tensor]} and by {node.label}"
                )
            else:
                writers[tensor] = node.label
    for node, tensor in find_early_reads(given, nodes):
        label = labels.get(tensor, tensor)
        if tensor not in writers:
            problems.append(f"{node.label} reads '{label}', which no operator writes")
        elif is_in_cycle(nodes, node, tensor):
            problems.append(
                f"{node.label} reads '{label}', which depends on its result: the graph has a cycle"
            )
        else:
            problems.append(
                f"{node.label} reads '{label}' before {writers[tensor]} writes it; expected an "
                "order in which each operator follows the operators that it reads from"
            )
    for tensor in outputs:
        if tensor not in writers and tensor not in given:
            problems.append(f"no operator writes the output '{labels.get(tensor, tensor)}'")
    return problems


def find_early_reads(
    given: set[Hashable], nodes: Sequence[GraphNode]
) -> Iterator[tuple[GraphNode, Hashable]]:
    """Yield each node and each tensor that the node reads before any node writes the tensor."""
    written = set(given)
    for node in nodes:
        for tensor in dict.fromkeys(node.reads):
            if tensor not in written:
                yield node, tensor
        written.update(node.writes)


def is_in_cycle(nodes: Sequence[GraphNode], reader: GraphNode, tensor: Hashable) -> bool:
    makers = {result: node for node in nodes for result in node.writes}
    pending, seen = [tensor], set()
    while pending:
        node = makers.get(pending.pop())
        if node is reader:
            return True
        if node is not None and id(node) not in seen:
            seen.add(id(node))
            pending.extend(node.reads)
    return False


def find_duplicates(names: Iterable[Hashable]) -> list[Hashable]:
    return [name for name, count in Counter(names).items() if count > 1]


def refuse_problems(heading: str, problems: Iterable[str], advice: str) -> None:
    """Raise UserError with one line per problem and the advice, if there are problems."""
    lines = list(dict.fromkeys(problems))
    if len(lines) > MAX_PROBLEMS:
        lines = [*lines[:MAX_PROBLEMS], f"and {len(lines) - MAX_PROBLEMS} more"]
    if lines:
        raise UserError("\n".join([heading, *(f"  {p}" for p in (*lines, advice))]))
