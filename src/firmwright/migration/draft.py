"""Converts settings to recipe values with the rules of a format. Notes list other settings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from firmwright.documents.yaml_text import format_pointer
from firmwright.errors import Diagnostic, DiagnosticError, did_you_mean
from firmwright.migration.c_arrays import EmbeddedModel
from firmwright.migration.source import Computed, Setting, Source
from firmwright.recipe.catalog import Catalog
from firmwright.targets.device_options import accepts, format_values

Pointer = tuple[str, ...]


class DraftRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One rule of rules.yaml. The comment at the start of the file describes the fields."""

    key: str = ""
    use: str = ""
    option: str = ""
    name: str = ""
    value: Any = None
    values: Mapping[str, Any] | None = None
    convert: str = ""
    reason: str = ""
    note: str = ""
    also: Mapping[str, Any] = msgspec.field(name="and", default_factory=dict)


@cache
def load_rules() -> Mapping[str, Mapping[str, DraftRule]]:
    text = Path(__file__).with_name("rules.yaml").read_text(encoding="utf-8")
    data = {k: v for k, v in yaml.safe_load(text).items() if not k.startswith("x-")}
    return msgspec.convert(data, dict[str, dict[str, DraftRule]])


@dataclass
class Draft:
    """An unfinished recipe. ``values`` has each value and, for messages, its setting."""

    source: Source
    catalog: Catalog
    rules: Mapping[str, DraftRule]
    values: dict[Pointer, tuple[Any, Setting]] = field(default_factory=dict)
    notes: list[tuple[Setting, str]] = field(default_factory=list)

    def apply(self, settings: Iterable[Setting]) -> None:
        """Convert settings. Raises DiagnosticError if two settings contradict each other."""
        for setting in settings:
            pattern = next((p for p in self.rules if fnmatchcase(setting.name, p)), None)
            if pattern is None:
                self.note(setting, "no recipe key corresponds to it")
            else:
                self.apply_rule(setting, self.rules[pattern], pattern)

    def apply_rule(self, setting: Setting, rule: DraftRule, pattern: str) -> None:
        for key, value in rule.also.items():
            self.put((*key.split("."),), value, setting)
        if rule.reason:
            self.note(setting, rule.reason)
        elif rule.option:
            self.put_option(setting, rule)
        elif isinstance(setting.value, Computed) and rule.value is None:
            reason = rule.note or "computed by the script"
            self.note(setting, f"{reason}; state `{rule.key or rule.use}`")
        else:
            self.put_value(setting, rule, pattern)

    def put_value(self, setting: Setting, rule: DraftRule, pattern: str) -> None:
        value = self.convert(setting, rule)
        key = f"use.{rule.use}" if rule.use else rule.key
        before, star, after = key.partition("*")
        if value is None:
            self.note(setting, f"no counterpart in `{rule.key or 'target'}`")
        elif star and isinstance(value, Mapping):
            for name, part in value.items():
                self.put(split_key(before, name, after), part, setting)
        else:
            start = pattern.partition("*")[0]
            self.put(split_key(before, setting.name.removeprefix(start), after), value, setting)
        if rule.note and value is not None:
            self.note(setting, f"{key.removeprefix('use.')}: {rule.note}")

    def convert(self, setting: Setting, rule: DraftRule) -> Any:
        """Return the recipe's value of a setting, or None if the setting has no counterpart."""
        if rule.value is not None:
            return rule.value
        if rule.values is not None:
            return rule.values.get(str(setting.value).lower())
        if rule.convert:
            return CONVERTERS[rule.convert](setting, self.source, self.catalog)
        return setting.value

    def put_option(self, setting: Setting, rule: DraftRule) -> None:
        """Store an option of a device, if the device has the option and accepts the value."""
        options = self.catalog.devices[rule.option].options
        name = rule.name or setting.name.removeprefix("options.").rpartition(".")[2]
        value = setting.value if rule.value is None else rule.value
        text = format_option(value)
        if isinstance(value, Computed):
            self.note(setting, f"computed by the script; state the option '{name}'")
        elif name not in options:
            hint = did_you_mean(name, options) if len(name) > 2 else ""
            hint = hint if hint.endswith("?") else ""
            self.note(setting, f"the device '{rule.option}' has no such option{hint}")
        elif not accepts(options[name], text):
            expected = format_values(options[name])
            self.note(setting, f"'{rule.option}' supports {expected}")
        else:
            self.put(
                ("option", rule.option, name), int(text) if text.isdecimal() else text, setting
            )

    def put(self, pointer: Pointer, value: Any, setting: Setting) -> None:
        """Store a value. Flags are appended to their list. Other values must be equal."""
        if pointer not in self.values:
            self.values[pointer] = value, setting
            return
        old, first = self.values[pointer]
        if pointer == ("cflags",):
            self.values[pointer] = [*old, *value], first
        elif old != value:
            name = format_pointer(pointer[1:] if pointer[0] in ("use", "option") else pointer)
            message = f"{name}: {shorten(value)} contradicts {shorten(old)} of {first.location}"
            raise DiagnosticError(
                [Diagnostic(setting.file, setting.line, 1, f"{message}; keep one of them")]
            )

    def note(self, setting: Setting, text: str) -> None:
        self.notes.append((setting, text))


def split_key(before: str, name: str, after: str) -> Pointer:
    parts = [part for part in before.split(".") if part]
    return (*parts, *([name] if before.endswith(".") else []), *filter(None, after.split(".")))


def format_option(value: Any) -> str:
    """Return a value as text for a device option: lists with commas, truth values as 1 and 0."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    text = str(value)
    return {"true": "1", "false": "0"}.get(text.lower(), text)


def shorten(value: Any) -> str:
    text = " ".join(str(value).split())
    return f"'{text if len(text) < 40 else text[:39] + '…'}'"


Converter = Callable[[Setting, Source, Catalog], Any]
"""Returns the recipe's value; None if there is no counterpart."""


def convert_path(setting: Setting, source: Source, _catalog: Catalog) -> str | None:
    """Return the path of a file relative to the current folder, which will contain the recipe."""
    if isinstance(setting.value, EmbeddedModel):
        return str(setting.value)
    if not isinstance(setting.value, str) or not setting.value:
        return None
    return (source.folder / setting.value).as_posix()


def convert_platform(setting: Setting, _source: Source, catalog: Catalog) -> str | None:
    names = (str(setting.value), str(setting.value).upper(), str(setting.value).lower())
    known = (catalog.resolve_platform(name) for name in names)
    return next((name for name in known if name in catalog.platforms), None)


def convert_batch(setting: Setting, _source: Source, _catalog: Catalog) -> int | None:
    """Return a batch size above 1, else None: TI's 0 is the model's batch, 1 is the default."""
    text = str(setting.value)
    return int(text) if re.fullmatch(r"\d{1,6}", text) and int(text) > 1 else None


def convert_flags(setting: Setting, _source: Source, _catalog: Catalog) -> list[str] | None:
    """Return the flags of a C compiler, or None if a flag contains a variable."""
    try:
        flags = shlex.split(str(setting.value))
    except ValueError:
        return None
    return flags if flags and all(re.fullmatch(r"-[^$`]+", flag) for flag in flags) else None


def convert_shapes(
    setting: Setting, _source: Source, _catalog: Catalog
) -> Mapping[str, Any] | None:
    value = setting.value
    if not isinstance(value, Mapping) or not all(isinstance(each, list) for each in value.values()):
        return None
    return {name: [*shape] for name, shape in value.items()}


def convert_dimension(
    setting: Setting, _source: Source, _catalog: Catalog
) -> Mapping[str, int] | None:
    """Map the name of a dimension to its length, for example ``batch:1``."""
    name, _, length = str(setting.value).rpartition(":")
    return {name: int(length)} if name and re.fullmatch(r"\d{1,9}", length) else None


def convert_deeploy(setting: Setting, source: Source, _catalog: Catalog) -> str | None:
    if not isinstance(setting.value, str):
        return None
    return (source.folder / setting.value / "network.onnx").as_posix()


def convert_tvm_names(setting: Setting, _source: Source, _catalog: Catalog) -> str:
    """Return the prefix of TVM's C names of a module, such as ``tvmgen_keywords``."""
    return f"tvmgen_{setting.value}"


CONVERTERS: Mapping[str, Converter] = {
    "path": convert_path,
    "platform": convert_platform,
    "batch": convert_batch,
    "flags": convert_flags,
    "shapes": convert_shapes,
    "dimension": convert_dimension,
    "deeploy": convert_deeploy,
    "tvm_names": convert_tvm_names,
}
"""Maps the names that rules use to functions."""
