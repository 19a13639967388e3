"""Reads models that are C arrays, as ``xxd -i`` writes them, and exports of Edge Impulse."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from firmwright.data.fetch import read_model
from firmwright.errors import UserError
from firmwright.migration.source import Computed, Setting, Source, read_source

ARRAY = re.compile(
    r"\b(?:char|uint8_t)\s+(?P<name>[A-Za-z_]\w*)\s*\[\s*(?P<size>\w*)\s*\][^;={}]{0,200}=\s*"
    r"\{(?P<items>[^{}]*)\}"
)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
IDENTIFIER = b"TFL3"
"""Bytes 4 to 7 of each .tflite file."""

METADATA = "model-parameters/model_metadata.h"
VARIABLES = "model-parameters/model_variables.h"


@dataclass(frozen=True)
class EmbeddedModel:
    """A model for a separate file with the name ``name``."""

    name: str
    content: bytes

    def __str__(self) -> str:
        return self.name


def read_c_array(source: Source) -> list[Setting]:
    """Return the model of a C file.

    Raises DiagnosticError if the file does not have exactly one complete model.
    """
    text = COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), source.text)
    arrays = {each: read_items(source, each) for each in ARRAY.finditer(text)}
    models = {each: data for each, data in arrays.items() if data[4:8] == IDENTIFIER}
    if not models:
        raise source.make_error(
            1,
            "no array of bytes is a TFLite model (bytes 4 to 7: TFL3); name the C file of a model",
        )
    first, *others = models
    if others:
        line = source.find_line(others[0].start())
        raise source.make_error(line, f"a second model; the first is '{first['name']}'; keep one")
    line, content = source.find_line(first.start()), models[first]
    name = re.sub(r"^g_|_(?:data|tflite|model_data)$", "", first["name"]) or first["name"]
    stated = re.search(rf"\b{first['name']}_len(?:gth)?\s*=\s*(\d+)", text)
    size = stated[1] if stated else first["size"]
    if re.fullmatch(r"[0-9]+", size) and size.lstrip("0") != str(len(content)):
        message = (
            f"'{first['name']}' has {len(content)} bytes; the file states {size}: copy it whole"
        )
        raise source.make_error(line, message)
    model = EmbeddedModel(f"{name}.tflite", content)
    return [Setting("array", model, source.shown, line)]


def read_items(source: Source, array: re.Match[str]) -> bytes:
    """Return the bytes of an array. Raises DiagnosticError if an item is not a byte."""
    content = bytearray()
    start = array.start("items")
    for item in re.finditer(r"[^,\s][^,]*", array["items"]):
        text = item[0].strip()
        number = re.fullmatch(r"(0[xX][0-9a-fA-F]{1,2}|0|[1-9][0-9]{0,2})[uU]?", text)
        value = int(number[1], 0 if "x" in text.lower() else 10) if number else 256
        if value > 255:
            line = source.find_line(start + item.start())
            raise source.make_error(line, f"expected a byte, found '{text[:40]}'")
        content.append(value)
    return bytes(content)


def read_edge_impulse(source: Source) -> list[Setting]:
    """Return the constants and the model of an exported C++ library.

    Raises UserError if a file cannot be read or the export has several models.
    """
    files = source.text.split("\n")
    metadata = next(name for name in files if name.endswith(METADATA))
    root = source.folder / metadata.removesuffix(METADATA)
    settings = []
    for path in (root / METADATA, root / VARIABLES):
        settings += read_constants(read_source(str(path))) if path.is_file() else []
    return [*settings, find_impulse_model(source, root / "tflite-model")]


def read_constants(source: Source) -> list[Setting]:
    """Return the constants and the class names of Edge Impulse's headers."""
    settings = []
    for match in re.finditer(r"^#define\s+(EI_\w+)[ \t]+(\S[^\n]*)$", source.text, re.M):
        text = re.match(STRING, match[2])
        value = unescape(text[1]) if text else match[2].split("//")[0].strip()
        settings.append(Setting(match[1], value, source.shown, source.find_line(match.start())))
    named = re.search(r"ei_classifier_inferencing_categories\w*\[\]\s*=\s*\{([^}]*)\}", source.text)
    if named:
        classes = [unescape(each) for each in re.findall(STRING, named[1])]
        line = source.find_line(named.start())
        settings.append(Setting("categories", classes, source.shown, line))
    return settings


def unescape(text: str) -> str:
    return re.sub(r'\\(["\\])', r"\1", text)


def find_impulse_model(source: Source, folder: Path) -> Setting:
    """Return the model in the folder of an export, or its C file if EON compiled the model.

    Raises UserError if there is not exactly one model.
    """
    files = sorted(folder.glob("*")) if folder.is_dir() else []
    models = [path for path in files if path.suffix == ".tflite"]
    if models[1:]:
        names = ", ".join(path.name for path in models)
        raise UserError(f"{source.shown}: several models: {names}; keep one of them")
    for path in models:
        return Setting(
            "array", EmbeddedModel(path.name, read_model(path, str(path), None)), str(path), 1
        )
    for path in files:
        if path.suffix in (".h", ".c", ".cc", ".cpp") and "compiled" not in path.stem:
            each = read_source(str(path))
            if ARRAY.search(each.text):
                return read_c_array(each)[0]
    compiled = next((path for path in files if path.suffix == ".cpp"), folder)
    return Setting("EON", Computed(compiled.name), str(compiled), 1)
