"""Converts YAML text to plain data, with the position of every key and value.

The reader is stricter than YAML 1.1. A key is text and occurs only once. A number is decimal (or
0x…, 0b…) and finite, and a date is text. The depth and the number of aliases are limited, and tags
construct no objects.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from firmwright.errors import CONTROLS, Diagnostic, DiagnosticError

Pointer = tuple[str | int, ...]

MAX_DEPTH = 32
MAX_VALUES = 100_000
"""Limits against deep nesting and alias bombs. A recipe has fewer than a hundred values."""

_TAG = "tag:yaml.org,2002:"
_MERGE = _TAG + "merge"
# The characters that are not printable in YAML 1.1. Quoted escapes can represent these characters.
_NOT_PRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


_ADVICE = {
    "mapping values are not allowed": "; write `key: value` with a space, begin the keys of a "
    "block in one column, and put text that has ': ' in it in quotes",
    "expected ':'": "; write `key: value` with a space",
    "escape character": "; in double quotes a backslash begins an escape: use single quotes",
    "quoted scalar": "; close the quotes that line {line} opens",
    "flow (mapping|sequence)": "; close the brace or bracket that line {line} opens",
    "block (mapping|collection)": "; begin the keys or items of a block in one column",
    "cannot start any token": "; put the text in quotes",
    "alias|anchor": "; put text that begins with & or * in quotes",
    "another document": "; a file has one: remove `---` and the lines after it",
}
"""Maps patterns of the messages of YAML errors to advice. The first match counts."""


@dataclass(frozen=True)
class Position:
    """The position of a value and of its key, 1-based. ``source_text`` is the text of a scalar."""

    line: int
    column: int
    key_line: int
    key_column: int
    source_text: str
    file: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


def get_value(data: Any, pointer: Pointer) -> Any:
    """Return the value at a pointer, or None if a key is missing."""
    for key in pointer:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def list_leaves(value: Any, pointer: Pointer = ()) -> Iterator[tuple[Pointer, Any]]:
    """Yield the values of nested mappings, with their pointers. An empty mapping is a value."""
    if isinstance(value, dict) and value:
        for key, part in value.items():
            yield from list_leaves(part, (*pointer, key))
    else:
        yield pointer, value


def format_pointer(pointer: Pointer) -> str:
    """Return a pointer as ``run.tolerance``, ``cflags[2]`` or ``inputs['odd name']``."""
    text = ""
    for part in pointer:
        if isinstance(part, str) and len(part) > 80:
            text += f"['{part[:79]}…']"
        elif isinstance(part, str) and re.fullmatch(r"[\w:/-]+", part):
            text += f".{part}" if text else part
        else:
            text += f"[{part!r}]"
    return text


def read_yaml(text: str, shown: str) -> tuple[Any, dict[Pointer, Position], list[Diagnostic]]:
    """Return the data of ``text``, its positions, and the errors that did not stop the reader.

    Raises DiagnosticError, with the file name ``shown``, if the data cannot be read.
    """
    import yaml  # the import takes 20 ms, and an up-to-date build does not need it

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    if odd := _NOT_PRINTABLE.search(text):
        index = odd.start()
        line, column = text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)
        message = f"the character U+{ord(odd.group()):04X} is not allowed in YAML; remove it"
        raise DiagnosticError([Diagnostic(shown, line, column, message)])
    try:
        _check_depth(yaml.parse(text, Loader=loader), shown)
        root = yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        raise DiagnosticError([_make_syntax_diagnostic(error, text, shown)]) from None
    if root is None:
        raise DiagnosticError(
            [Diagnostic(shown, 0, 0, "the file is empty; write keys (key: value)")]
        )
    builder = _Builder(shown)
    data = builder.build_value(root, (), root)
    return data, builder.positions, builder.findings


def write_yaml(data: Any, **options: Any) -> str:
    """Return plain data as readable YAML. Control characters are escaped.

    ``options`` are the options of ``yaml.safe_dump``.
    """
    import yaml

    text: str = yaml.safe_dump(data, allow_unicode=True, **options)
    return text if CONTROLS.search(text) is None else str(yaml.safe_dump(data, **options))


def _check_depth(events: Any, shown: str) -> None:
    # The depth is checked before composing, because the composer is recursive.
    depth = 0
    for event in events:
        kind = type(event).__name__
        depth += kind.endswith("StartEvent") - kind.endswith("EndEvent")
        if depth > MAX_DEPTH:
            raise DiagnosticError([_make_depth_diagnostic(event.start_mark, shown)])


def _make_depth_diagnostic(mark: Any, shown: str) -> Diagnostic:
    message = f"lists and mappings are nested more than {MAX_DEPTH} deep"
    return Diagnostic(shown, mark.line + 1, mark.column + 1, message)


def _make_syntax_diagnostic(error: Any, text: str, shown: str) -> Diagnostic:
    mark = error.problem_mark or error.context_mark
    message = f"not valid YAML: {error.problem}"
    if error.context:
        message += f" ({error.context})"
    lines = text.split("\n")
    if mark.line < len(lines) and lines[mark.line][mark.column : mark.column + 1] == "\t":
        message += "; YAML indents with spaces, not with tabs"
    else:
        begun = (error.context_mark or mark).line + 1
        hints = (advice for pattern, advice in _ADVICE.items() if re.search(pattern, message))
        message += next(hints, "").format(line=begun)
    return Diagnostic(shown, mark.line + 1, mark.column + 1, message)


class _Builder:
    """Converts composed nodes to data, and collects positions and findings."""

    def __init__(self, shown: str) -> None:
        self.shown = shown
        self.positions: dict[Pointer, Position] = {}
        self.findings: list[Diagnostic] = []
        self._visited = 0

    def build_value(self, node: Any, pointer: Pointer, key: Any) -> Any:
        self._count(node, len(pointer))
        start, key_start = node.start_mark, key.start_mark
        written = node.value if node.id == "scalar" else ""
        self.positions[pointer] = Position(
            start.line + 1, start.column + 1, key_start.line + 1, key_start.column + 1,
            written, self.shown,
        )  # fmt: skip
        if node.id == "mapping" and node.tag == _TAG + "map":
            return self._build_mapping(node, pointer)
        if node.id == "sequence" and node.tag == _TAG + "seq":
            return [
                self.build_value(item, (*pointer, i), item) for i, item in enumerate(node.value)
            ]
        if node.id == "scalar" and node.tag in _SCALARS:
            return self._build_scalar(node, pointer)
        tag = node.tag.replace(_TAG, "!!")
        self._report(node, pointer, f"the tag {tag!r} is not allowed here; write a plain value")
        return written

    def _build_scalar(self, node: Any, pointer: Pointer) -> Any:
        try:
            return _SCALARS[node.tag](node.value)
        except ValueError as error:
            self._report(node, pointer, str(error))
            return node.value

    def _build_mapping(self, node: Any, pointer: Pointer) -> dict[str, Any]:
        inherited, direct = self._merge_pairs(node, pointer, len(pointer))
        chosen: dict[str, tuple[Any, Any]] = {}
        for key, value in inherited:
            if self._is_text(key, pointer):
                chosen[key.value] = key, value
        first: dict[str, Any] = {}
        for key, value in direct:
            if not self._is_text(key, pointer):
                continue
            if key.value in first:
                line = first[key.value].start_mark.line + 1
                message = f"duplicate key; the first is on line {line}"
                self._report(key, (*pointer, key.value), message)
                continue
            first[key.value] = key
            chosen[key.value] = key, value
        return {
            name: self.build_value(value, (*pointer, name), key)
            for name, (key, value) in chosen.items()
        }

    def _merge_pairs(self, node: Any, pointer: Pointer, depth: int) -> tuple[list[Any], list[Any]]:
        """Return the pairs of merge keys (``<<``), strongest last, and the direct pairs."""
        self._count(node, depth)
        inherited: list[Any] = []
        direct: list[Any] = []
        for key, value in node.value:
            if key.tag != _MERGE:
                direct.append((key, value))
                continue
            sources = value.value if value.id == "sequence" else [value]
            for source in reversed(sources):
                if source.id == "mapping":
                    further, pairs = self._merge_pairs(source, pointer, depth + 1)
                    inherited += further + pairs
                else:
                    message = "a merge key (<<) needs a mapping or a list of mappings"
                    self._report(key, pointer, message)
        return inherited, direct

    def _is_text(self, key: Any, pointer: Pointer) -> bool:
        if key.id == "scalar" and _SCALARS.get(key.tag) is _parse_text:
            return True
        if key.id == "scalar":
            kind = _KINDS.get(key.tag, "something else")
            value = f"{key.value!r}, which YAML reads as {kind}; put it in quotes"
        else:
            value = "a list" if key.id == "sequence" else "a mapping"
        self._report(key, pointer, f"expected text as the key, found {value}")
        return False

    def _count(self, node: Any, depth: int) -> None:
        mark = node.start_mark
        if depth > MAX_DEPTH:
            raise DiagnosticError([_make_depth_diagnostic(mark, self.shown)])
        # Text also counts, because an alias to long text multiplies the size of the output.
        self._visited += 1 + (len(node.value) // 64 if node.id == "scalar" else 0)
        if self._visited > MAX_VALUES:
            message = f"too much data: over {MAX_VALUES} values after aliases (*name) are expanded"
            raise DiagnosticError([Diagnostic(self.shown, mark.line + 1, mark.column + 1, message)])

    def _report(self, node: Any, pointer: Pointer, message: str) -> None:
        mark = node.start_mark
        name = format_pointer(pointer)
        message = f"{name}: {message}" if name else message
        self.findings.append(Diagnostic(self.shown, mark.line + 1, mark.column + 1, message))


def _parse_text(written: str) -> str:
    if odd := _NOT_PRINTABLE.search(written):
        raise ValueError(
            f"the character U+{ord(odd.group()):04X} is not allowed in text; remove it"
        )
    return written


def _parse_boolean(written: str) -> bool:
    text = written.lower()
    if text not in {"true", "yes", "on", "false", "no", "off"}:
        raise ValueError(f"expected true or false, found {written!r}")
    return text in {"true", "yes", "on"}


def _parse_integer(written: str) -> int:
    digits = written.replace("_", "").lstrip("+-")
    if ":" in digits:
        raise ValueError(f"YAML reads {written} as a base-60 number; put it in quotes for text")
    if len(digits) > 66:  # 64 binary digits and their prefix
        raise ValueError("a number of more than 64 bits; put it in quotes if it is text")
    if re.fullmatch("0[0-7]+", digits):
        raise ValueError(
            f"YAML reads {written} as octal, {int(digits, 8)}; "
            "leave out the leading zero for a decimal number, put it in quotes for text"
        )
    try:
        number = int(digits, 0)
    except ValueError:
        raise ValueError(f"expected a whole number, found {written!r}") from None
    if number >= 1 << 64:
        raise ValueError("a number of more than 64 bits; put it in quotes if it is text")
    return -number if written.startswith("-") else number


def _parse_number(written: str) -> float:
    if ":" in written:
        raise ValueError(f"YAML reads {written} as a base-60 number; put it in quotes for text")
    try:
        number = float(written.replace("_", ""))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"expected a finite number, found {written[:40]!r}")
    return number


_KINDS = {
    _TAG + "bool": "a truth value",
    _TAG + "int": "a number",
    _TAG + "float": "a number",
    _TAG + "null": "nothing",
}

_SCALARS: Mapping[str, Callable[[str], Any]] = {
    _TAG + "str": _parse_text,
    _TAG + "timestamp": _parse_text,
    _TAG + "value": _parse_text,  # the value is a single '='
    _TAG + "bool": _parse_boolean,
    _TAG + "int": _parse_integer,
    _TAG + "float": _parse_number,
    _TAG + "null": lambda written: None,  # noqa: ARG005
}
