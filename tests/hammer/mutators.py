"""Changes bytes, texts, and the structure of YAML and JSON at random."""

from __future__ import annotations

import io
import json
import random
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import yaml

ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 5, 1.5, -0.0, float("inf"), float("nan"), 2**31, 2**63, 10**30,
    "", " ", "~", "0", "-1", "1e999", "a b", "a\nb", "\x00", "\x1b[2J", "é" * 300, "\u202e",
    "../..", "/", ".", "..", "/dev/zero", "/etc/passwd", "a" * 5000, ":", "a:", ":b", "a:b",
    "os:abort", "a.b:c", "*", "**/*", "[", "%s", "{0}", "$(touch x)", "`x`", "c -a=b", "c, c", "-",
    "soma_dory", "http://[", "https://h/x.onnx", "128 KiB", "1 XiB", [], {}, [[]], [{}], {"": ""},
    [None], [1.5], {"a": 1}, {"python": ":"}, {"path": "x"}, {"path": "../x", "sha256": "0" * 64},
    ["a", "a"], "/**/*",
)  # fmt: skip
MARKS = (": ", "- ", "\n", "\n  ", "[", "]", "{", "}", "&a ", "*a", "<<: ", "'", '"', "#", "!!int ",
         "!x ", "? ", "---\n", "%", "\t", "|", ">", "\x00", "\ufeff", "\u2028", "é")  # fmt: skip


@dataclass(frozen=True)
class Vocabulary:
    """The keys and values of a kind of document, and whole documents as sources of parts."""

    keys: Sequence[str]
    values: Sequence[Any]
    documents: Sequence[Any]


def collect_words(schema: Any) -> tuple[list[str], list[Any]]:
    """Return a JSON schema's keys, and its examples, defaults and choices."""
    keys: set[str] = set()
    values: list[Any] = []

    def walk(part: Any) -> None:
        if isinstance(part, dict):
            keys.update(part.get("properties", ()))
            values.extend([*part.get("enum", ()), *part.get("examples", ())])
            values.extend([part["default"]] if "default" in part else ())
        for inner in part.values() if isinstance(part, dict) else part:
            if isinstance(inner, (dict, list)):
                walk(inner)

    walk(schema)
    return sorted(keys), values


def list_places(data: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container with each of its keys or indices."""
    entries = data.items() if isinstance(data, dict) else enumerate(data)
    for key, inner in list(entries):
        yield data, key
        if isinstance(inner, (dict, list)):
            yield from list_places(inner)


def draw_value(known: Vocabulary, draw: random.Random) -> Any:
    """Return an unusual value, a value of the schema, or a part of another document."""
    kind = draw.randrange(3)
    if kind == 1 and known.values:
        return deepcopy(draw.choice(known.values))
    places = list(list_places(draw.choice(known.documents))) if kind == 2 else []
    if not places:
        return deepcopy(draw.choice(ODD))
    container, key = draw.choice(places)
    return deepcopy(container[key])


def mutate(data: Any, known: Vocabulary, draw: random.Random) -> None:
    """Change one thing in the data of a document."""
    places = list(list_places(data))
    if not places:
        return
    container, key = draw.choice(places)
    change = draw.randrange(6)
    if change == 0:
        del container[key]
    elif change == 1 and isinstance(container, dict) and known.keys:
        container[draw.choice(known.keys)] = draw_value(known, draw)
    elif change == 2 and isinstance(container, dict):
        container[draw.choice([*known.keys, "x", 1, None, ""])] = container.pop(key)
    elif change == 3 and isinstance(container, list):
        container.append(deepcopy(container[key]))
    elif change == 4:
        container[key] = draw.choice([[container[key]], {"a": container[key]}])
    else:
        container[key] = draw_value(known, draw)


def mutate_text(text: str, draw: random.Random) -> bytes:
    """Change characters or bytes of a text."""
    start = draw.randrange(len(text) + 1)
    end = min(len(text), start + draw.randrange(20))
    text = text[:start] + draw.choice([*MARKS, "", text[start:end] * 2]) + text[end:]
    content = bytearray(text.encode("utf-8", "surrogatepass"))
    if content and draw.randrange(4) == 0:
        content[draw.randrange(len(content))] = draw.randrange(256)
    return bytes(content)


def mutate_bytes(value: bytes, draw: random.Random) -> bytes:
    """Add some bytes, remove some, or change one."""
    change = draw.randrange(4)
    if change == 0 or not value:
        return value + draw.randbytes(draw.randint(1, 8))
    if change == 1:
        return value[: draw.randrange(len(value))]
    changed = bytearray(value)
    changed[draw.randrange(len(value))] ^= draw.randrange(1, 256)
    return bytes(changed)


def mutate_json(content: bytes, draw: random.Random, known: Vocabulary) -> bytes:
    """Change the structure of JSON, or the bytes of a text that is not JSON."""
    try:
        data = json.loads(content)
        if not isinstance(data, (dict, list)):
            return mutate_bytes(content, draw)
    except ValueError:
        return mutate_bytes(content, draw)
    for _ in range(draw.randint(1, 3)):
        mutate(data, known, draw)
    return json.dumps(data, skipkeys=True).encode()


def mutate_yaml(content: bytes, draw: random.Random, known: Vocabulary) -> bytes:
    """Change the structure of YAML, or its text, or both."""
    text = content.decode()
    if draw.randrange(4):
        data = yaml.safe_load(text)
        for _ in range(draw.randint(1, 4)):
            mutate(data, known, draw)
        text = yaml.safe_dump(data, allow_unicode=True, sort_keys=False)
        if draw.randrange(4):
            return text.encode("utf-8", "surrogatepass")
    return mutate_text(text, draw)


def mutate_archive(content: bytes, draw: random.Random) -> bytes:
    """Change a member of a zip archive, its name, or the archive's bytes."""
    if draw.randrange(3) == 0:
        return mutate_bytes(content, draw)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    chosen = draw.randrange(len(members))
    name, data = members[chosen]
    change = draw.randrange(5)
    if change == 0:
        del members[chosen]
    elif change == 1:
        members.append((name, mutate_bytes(data, draw)))
    elif change == 2:
        folder, slash, _ = name.rpartition("/")
        members[chosen] = (f"{folder}{slash}{draw.choice(('x', '../x', 'a' * 300, 'é'))}", data)
    elif data[:1] in (b"{", b"["):
        members[chosen] = (name, mutate_json(data, draw, Vocabulary((), (), ({},))))
    else:
        members[chosen] = (name, mutate_bytes(data, draw))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile warns of a duplicate name
        for name, data in members:
            archive.writestr(name, data)
    return stream.getvalue()
