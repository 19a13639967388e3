"""Merges documents that build on one another: a file, its bases, overlays and values.

A schema then checks the merged document. Each value keeps the position in its file.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from firmwright.documents.document import Document, parse_document, read_bytes
from firmwright.documents.merge import Merger, Node, make_node, to_plain, walk
from firmwright.documents.schema_check import describe, quote
from firmwright.documents.stated_values import read_values
from firmwright.documents.yaml_text import Pointer
from firmwright.errors import Diagnostic, DiagnosticError, UserError

EXTENDS = "extends"
FRAGMENT = "x-"
"""The prefix of top-level keys that contain fragments for YAML's anchors."""

MAX_DEPTH = 64
"""The maximum number of files that extend one another. Typical chains have fewer than ten files."""

PACKAGED = re.compile(r"([A-Za-z_]\w*):([^/].*)", re.ASCII)
"""A file of an installed package: ``package:path``."""


@dataclass(frozen=True)
class Layers:
    """A file, its overlays, and values of the command line. Later layers replace earlier values.

    ``overrides`` maps keys, such as ``run.samples``, to YAML texts. Paths in these texts start at
    the file's folder.
    """

    path: Path
    overlays: tuple[Path, ...] = ()
    overrides: Mapping[str, str] = field(default_factory=dict)

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.path, *self.overlays)

    @property
    def folder(self) -> Path:
        """The folder at which relative paths of the whole document start."""
        return self.path.parent

    @cached_property
    def chain(self) -> Chain:
        """The merged document.

        The document is read only at the first access, so that the files do not change during a job.
        """
        return read_chain(self)

    def __str__(self) -> str:
        return ":".join(map(str, self.files))


@dataclass(frozen=True)
class Chain:
    """The document of layers, its nodes, and all files in the order of the merges.

    ``removed`` has the position of each ``null`` that removed a key. ``files`` has the SHA-256 of
    each file. ``findings`` are errors of YAML and of merges.
    """

    document: Document
    root: Node
    removed: Mapping[Pointer, Node]
    files: Mapping[Path, str]
    findings: list[Diagnostic]


@dataclass
class Reader:
    """Reads files after their bases. A file that several files extend is read once.

    ``merged`` are the documents in the order of the merges.
    """

    documents: dict[str, Document] = field(default_factory=dict)
    merged: list[Document] = field(default_factory=list)
    files: dict[Path, str] = field(default_factory=dict)
    findings: list[Diagnostic] = field(default_factory=list)

    def read_named(self, path: Path) -> None:
        """Read a recipe or an overlay.

        An overlay merges at its position, even if a file also extends it.
        """
        known = self.documents.get(os.path.realpath(path))
        if known is None:
            self.read(path, read_bytes(path, str(path)))
        else:
            self.merged = [*(each for each in self.merged if each is not known), known]
            read = Path(known.path)
            self.files[read] = self.files.pop(read)

    def read(self, path: Path, content: bytes, above: Sequence[Path] = ()) -> None:
        """Read the bases of a file, then its ``content``. The files ``above`` extend this file."""
        real = os.path.realpath(path)
        if real in self.documents:
            return
        document, diagnostics = parse(content, str(path))
        self.findings += diagnostics
        for pointer, name in self.list_bases(document):
            self.read_base(document, pointer, name, (*above, path))
        self.documents[real] = document
        self.merged.append(document)
        self.files[path] = hashlib.sha256(content).hexdigest()

    def list_bases(self, document: Document) -> list[tuple[Pointer, str]]:
        for key in document.data:
            if key != EXTENDS and key.strip("+") == EXTENDS:
                message = f"unknown key; list all bases in `{EXTENDS}`"
                self.findings.append(document.make_diagnostic((key,), message, key=True))
        if EXTENDS not in document.data:
            return []
        stated = document.data[EXTENDS]
        named: list[tuple[Pointer, Any]] = [((EXTENDS,), stated)]
        if isinstance(stated, list) and stated:
            named = [((EXTENDS, i), each) for i, each in enumerate(stated)]
        for pointer, name in named:
            if not (isinstance(name, str) and name):
                message = f"expected a file or a list of files, found {describe(name)}"
                self.findings.append(document.make_diagnostic(pointer, message))
        return [(pointer, name) for pointer, name in named if isinstance(name, str) and name]

    def read_base(
        self, document: Document, pointer: Pointer, name: str, above: Sequence[Path]
    ) -> None:
        """Read a base.

        Raises DiagnosticError with the position of the base's name and with all files above.
        """
        try:
            path = find_base(name, above[-1].parent)
            if os.path.realpath(path) in map(os.path.realpath, above):
                raise UserError("the files extend one another in a circle; remove one `extends`")
            if len(above) == MAX_DEPTH:
                raise UserError(
                    f"more than {MAX_DEPTH} files extend one another; merge some of them"
                )
            content = read_bytes(path, str(path))
            if b"\0" in content:
                raise UserError(f"{path}: this is a binary file; expected a YAML file")
        except UserError as error:
            chain = " extends ".join([*map(str, above), name])
            message = f"{error}; {chain}" if len(above) > 1 else str(error)
            raise DiagnosticError([document.make_diagnostic(pointer, message)]) from None
        self.read(path, content, above)


@lru_cache(maxsize=1024)
def parse(content: bytes, shown: str) -> tuple[Document, list[Diagnostic]]:
    """Return the document of a file.

    The document is cached, because many recipes share their bases.
    """
    return parse_document(content, shown)


def split_overlays(text: str, folder: Path) -> list[str]:
    """Return a recipe and its overlays.

    Colons separate the names, unless the whole text is the name of a file.
    """
    is_file = os.path.isfile(folder / text)  # noqa: PTH113  # False for a name that is too long
    return [text] if is_file else text.split(":")


def parse_layers(text: str, folder: Path) -> Layers:
    """Return the files of a text such as ``net.yaml:release.yaml``. Paths start at ``folder``."""
    first, *overlays = split_overlays(text, folder)
    return Layers(folder / first, tuple(folder / overlay for overlay in overlays))


def find_base(name: str, folder: Path) -> Path:
    """Return the file that a document in ``folder`` extends.

    Raises UserError if the file is missing or the name is not a file's name.
    """
    if re.match(r"[A-Za-z][\w+.-]*://", name):
        message = "is an address; expected a file, or one of an installed package (package:path)"
        raise UserError(f"{quote(name)} {message}")
    if "\0" in name:
        raise UserError(f"expected the name of a file, found {describe(name)}")
    packaged = PACKAGED.fullmatch(name)
    if packaged:
        return find_packaged(packaged[1], packaged[2])
    path = folder / name
    tidy = Path(os.path.normpath(path))
    return tidy if os.path.realpath(tidy) == os.path.realpath(path) else path


def find_packaged(package: str, name: str) -> Path:
    """Return a file of an installed package without importing it.

    Raises UserError if the file is missing.
    """
    *folders, file = name.split("/")
    try:
        spec = find_spec(package)
        locations = list(spec.submodule_search_locations or ()) if spec else []
    except (ImportError, ValueError):
        locations = []
    paths = [Path(location, *folders, file) for location in locations]
    if not paths:
        raise UserError(
            f"the Python package {quote(package)} is not installed; install it, or name a file"
        )
    return next((path for path in paths if path.is_file()), paths[0])


def read_chain(layers: Layers) -> Chain:
    """Read the files of layers and their bases. Return the merged document.

    Raises DiagnosticError if the file, an overlay or a base cannot be read as a mapping in YAML.
    """
    reader = Reader()
    for path in layers.files:
        reader.read_named(path)
    merger = Merger()
    values, diagnostics = read_values(layers.overrides)
    root: Node | None = None
    for document in [*reader.merged, values]:
        node = drop_fragments(make_node(document.data, document.positions))
        merger.keeps_null = root is None
        root = merger.merge(root or replace(node, value={}), node)
    assert root is not None
    top = reader.documents[os.path.realpath(layers.path)].positions[()]
    document = make_document(str(layers.path), replace(root, position=top), merger)
    errors = name_files(merger.findings, [*reader.files])
    findings = [*reader.findings, *diagnostics, *errors]
    return Chain(document, root, merger.removed, reader.files, findings)


def list_chain(layers: Layers) -> list[Path]:
    """Return all files of layers.

    Only the named files and the files with errors are returned if there are errors.
    """
    try:
        return [*read_chain(layers).files]
    except DiagnosticError as error:
        return list(dict.fromkeys([*layers.files, *(Path(d.path) for d in error.diagnostics)]))


def drop_fragments(root: Node) -> Node:
    """Return a document without its ``extends`` and its fragments."""
    kept = {
        key: node
        for key, node in root.value.items()
        if key.strip("+") != EXTENDS and not key.startswith(FRAGMENT)
    }
    return replace(root, value=kept)


def make_document(path: str, root: Node, merger: Merger) -> Document:
    positions = {pointer: node.position for pointer, node in walk(root)}
    data: dict[str, Any] = to_plain(root)
    removed = {pointer: node.position for pointer, node in merger.removed.items()}
    return Document(path, data, positions, removed)


def name_files(findings: Sequence[Diagnostic], files: Sequence[Path]) -> list[Diagnostic]:
    """Return the errors of merges with the names of all files, in the order of the merge."""
    order = f"the files merge in this order: {', '.join(map(str, files))}"
    return [replace(each, message=f"{each.message}; {order}") for each in findings]
