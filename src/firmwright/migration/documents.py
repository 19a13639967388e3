"""Reads YAML and INI files: TI's options, .mlconf files, and PlatformIO's projects."""

from __future__ import annotations

import re
from collections.abc import Iterator

from firmwright.documents.yaml_text import list_leaves, read_yaml
from firmwright.errors import DiagnosticError
from firmwright.migration.source import Setting, Source


def read_document(source: Source) -> list[Setting]:
    """Return the values of a YAML file. A name is a path of keys, such as ``session.model_path``.

    A numeric key, as in TI's maps of labels, becomes text. Raises DiagnosticError if the text is
    not YAML or not a mapping.
    """
    text = re.sub(r"^(\s*)(-?[0-9]+)(?=:(?:\s|$))", r'\1"\2"', source.text, flags=re.M)
    data, positions, diagnostics = read_yaml(text, source.shown)
    if diagnostics:
        raise DiagnosticError(diagnostics)
    if not isinstance(data, dict):
        raise source.make_error(1, "expected a mapping of keys to values; name a file of settings")
    return [
        Setting(".".join(map(str, pointer)), value, source.shown, positions[pointer].line)
        for pointer, value in list_leaves(data)
        if pointer
    ]


def read_options(source: Source) -> list[Setting]:
    """Return the values of TI's YAML files. An option of TIDL is named ``options.NAME``."""
    return [
        Setting(
            re.sub(r"^(?:.*\.)?(?:compile_options|runtime_options)\.", "options.", each.name),
            each.value, each.file, each.line,
        )
        for each in read_document(source)
    ]  # fmt: skip


def read_platformio(source: Source) -> list[Setting]:
    """Return the values of PlatformIO's sections. Each ``build_flags`` is a separate setting.

    Other environments are ignored if the file names one default environment.
    """
    settings = [*read_ini(source)]
    chosen = [str(s.value).strip() for name, s in settings if s.name == "default_envs"]
    kept = {"platformio", "env", *(f"env:{name}" for name in chosen)}
    if chosen and "," not in chosen[0]:
        settings = [(name, each) for name, each in settings if name in kept]
    return [each for _, each in settings]


def read_ini(source: Source) -> Iterator[tuple[str, Setting]]:
    """Yield the section and the setting of each line of an INI file.

    Raises DiagnosticError if a line is not in the form of an INI file.
    """
    section = key = ""
    for number, line in enumerate(source.text.split("\n"), 1):
        text = re.sub(r"(?:^|\s)[;#].*", "", line).rstrip()
        if not text:
            continue
        if heading := re.fullmatch(r"\[([^\]]+)\]", text):
            section, key = heading[1].strip(), ""
        elif text[0].isspace() and key:
            yield section, Setting(key, text.strip(), source.shown, number)
        elif section and "=" in text:
            key, _, value = (part.strip() for part in text.partition("="))
            if value:
                yield section, Setting(key, value, source.shown, number)
        else:
            raise source.make_error(number, "not an INI file: expected [section] or key = value")
