"""Reports JSON Schema (2020-12) errors in plain words, and fills in the schema's defaults.

Two keywords of editors are also supported: ``patternErrorMessage`` and ``errorMessage`` contain the
message.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from firmwright.documents.yaml_text import Pointer
from firmwright.errors import did_you_mean, mask_addresses

Schema = Mapping[str, Any]
Properties = Mapping[str, Schema]
GetSourceText = Callable[[Pointer], str]


@dataclass(frozen=True)
class Finding:
    """A sentence about the value at ``pointer``, about its key, or about its ``missing`` key."""

    pointer: Pointer
    message: str
    key: bool = False
    missing: str = ""


_TYPES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}

_LIMITS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "text of {} or more characters",
    "maxLength": "text of {} characters at most",
    "minItems": "a list of {} or more items",
    "maxItems": "a list of {} items at most",
    "minProperties": "a mapping of {} or more keys",
    "maxProperties": "a mapping of {} keys at most",
    "const": "{!r}",
    "uniqueItems": "items that all differ",
}


@functools.cache
def read_schema(package: str, file: str) -> dict[str, Any]:
    """Return the JSON schema in a file of one of firmwright's packages."""
    text = files(f"firmwright.{package}").joinpath(file).read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def find_errors(
    data: Any, schema: Schema, written: GetSourceText = lambda _: ""
) -> Iterator[Finding]:
    """Yield the errors in ``data``. ``written`` returns a scalar's source text."""
    for error in _make_validator_class()(schema).iter_errors(data):
        yield from _translate(error, written, schema)


@functools.cache
def _make_validator_class() -> Any:
    import jsonschema  # the import needs 76 ms, so only a validation imports it

    def ecma_pattern(_: Any, pattern: str, instance: Any, __: Any) -> Iterator[Any]:
        # In JSON Schema `$` is the end of the text. In Python, `$` also matches before a last line
        # break.
        python_pattern = re.sub(r"(?<!\\)\$$", r"\\Z", pattern)
        if isinstance(instance, str) and not re.search(python_pattern, instance):
            yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")

    standard = jsonschema.Draft202012Validator
    # The standard accepts 4.0 as an integer. A recipe's digest must not depend on the spelling of a
    # number.
    types = standard.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    )
    extend: Any = jsonschema.validators.extend  # typeshed has no type for this argument
    return extend(standard, validators={"pattern": ecma_pattern}, type_checker=types)


def _translate(error: Any, written: GetSourceText, root: Schema) -> Iterator[Finding]:
    pointer: Pointer = tuple(error.absolute_path)
    schema = error.schema if isinstance(error.schema, Mapping) else {}
    if "propertyNames" in error.relative_schema_path:
        yield Finding((*pointer, error.instance), _format_error(error, schema), key=True)
    elif error.validator == "additionalProperties" and error.validator_value is False:
        yield from _find_unknown_keys(error, schema, pointer, root)
    elif error.validator in {"required", "dependentRequired"}:
        for name, text in _find_missing_keys(error, root.get("properties", {})):
            yield Finding(pointer, text, missing=name)
    elif error.validator in {"anyOf", "oneOf"}:
        yield from _report_nearest_alternative(error, schema, pointer, written, root)
    elif error.validator == "type":
        types = error.validator_value
        names = [types] if isinstance(types, str) else types
        form = schema.get("patternErrorMessage")
        if form and written(pointer) and not re.search(schema["pattern"], written(pointer)):
            yield Finding(pointer, f"{form}; found {describe(error.instance)}")
        else:
            yield Finding(pointer, _format_type_error(names, error.instance, written(pointer)))
    else:
        yield Finding(pointer, _format_error(error, schema))


def _find_missing_keys(error: Any, top: Properties) -> Iterator[tuple[str, str]]:
    if error.validator == "required":
        properties = error.schema.get("properties", top)
        for name in error.validator_value:
            if name not in error.instance:
                yield name, f"the key '{name}' is missing{_show_example(name, properties)}"
        return
    for name, needed in error.validator_value.items():
        for other in needed if name in error.instance else ():
            if other not in error.instance:
                yield other, f"the key '{other}' is missing; '{name}' needs it"


def _show_example(name: str, properties: Properties) -> str:
    """Return an example of a block, or the form of a single value if its schema states one."""
    schema = properties.get(name, {})
    if form := schema.get("patternErrorMessage"):
        return f"; {form}"
    examples = schema.get("examples", ())
    if not examples or not isinstance(examples[0], Mapping):
        return ""
    import yaml  # only a message needs it

    shown = yaml.safe_dump(examples[0], default_flow_style=True, sort_keys=False, width=1000)
    return f"; for example `{name}: {shown.strip()}`"


def _format_error(error: Any, schema: Schema) -> str:
    rule, limit = error.validator, error.validator_value
    value = f"found {describe(error.instance)}"
    problem = schema.get("errorMessage")
    if rule == "pattern":
        problem = schema.get("patternErrorMessage", problem)
    if problem:
        return f"{problem}; {value}"
    if rule == "enum":
        hint = did_you_mean(str(error.instance), map(str, limit))
        return f"unknown value {quote(str(error.instance))}{hint}"
    if rule in _LIMITS:
        return f"expected {_LIMITS[rule].format(limit)}, {value}"
    return _shorten(error.message)


def _find_unknown_keys(
    error: Any, schema: Schema, pointer: Pointer, root: Schema
) -> Iterator[Finding]:
    known = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    for name in error.instance:
        if name not in known and not any(re.search(p, name) for p in patterns):
            yield Finding(
                (*pointer, name), f"unknown key{_suggest_key(name, schema, root)}", key=True
            )


def _suggest_key(name: str, schema: Schema, root: Schema) -> str:
    """Return a hint: blocks with the key, the nested form of a dotted key, or a similar key."""
    known, top = schema.get("properties", {}), root.get("properties", {})
    first, *rest = name.split(".")
    if rest and knows((first, *rest), schema, root):
        nested = ": {".join((first, *rest))
        return f"; nest the keys: `{nested}: …{'}' * len(rest)}`"
    inner = resolve_reference(known.get(first, {}), root).get("properties", {})
    if rest and inner:
        inside = ".".join(rest)
        return f"; '{first}' has no key {quote(inside)}{did_you_mean(inside, inner)}"
    blocks = [f"'{block}'" for block, part in top.items() if name in part.get("properties", {})]
    if name in top:
        return "; it is a key of the file's top level"
    return f"; it is a key of {', '.join(blocks)}" if blocks else did_you_mean(first, known)


def _report_nearest_alternative(
    error: Any, schema: Schema, pointer: Pointer, written: GetSourceText, root: Schema
) -> Iterator[Finding]:
    """Yield the errors of the alternative with the correct type and the fewest errors."""
    branches: dict[Any, list[Any]] = {}
    for part in error.context:
        branches.setdefault(part.relative_schema_path[0], []).append(part)
    mistyped = [e for e in error.context if e.validator == "type" and not e.relative_path]
    unfit = {e.relative_schema_path[0] for e in mistyped}
    fitting = [parts for branch, parts in branches.items() if branch not in unfit]
    if "errorMessage" in schema or not branches:
        yield Finding(pointer, _format_error(error, schema))
    elif fitting:
        translated = [
            [f for part in parts for f in _translate(part, written, root)] for parts in fitting
        ]
        yield from min(translated, key=len)
    else:
        types: list[str] = []
        for e in mistyped:
            types += (
                [e.validator_value] if isinstance(e.validator_value, str) else e.validator_value
            )
        yield Finding(pointer, _format_type_error(types, error.instance, written(pointer)))


def _format_type_error(types: Iterable[str], value: Any, written: str) -> str:
    types = list(dict.fromkeys(types))
    expected = " or ".join(_TYPES[name] for name in types)
    message = f"expected {expected}, found {describe(value)}"
    return message + _explain_yaml_type(set(types), value, written)


def _explain_yaml_type(types: set[str], value: Any, written: str) -> str:
    """Return advice if YAML 1.1 assigned a type that the author did not intend."""
    if "string" in types and isinstance(value, bool):
        return f" (YAML reads {written} as a truth value; put it in quotes for text)"
    if "string" in types and isinstance(value, int | float):
        return f" (put it in quotes for text: {quote(written)})"
    if value is None:
        return "; state a value, or remove the key"
    if not written:
        return ""
    if types & {"integer", "number"} and isinstance(value, str):
        power = re.fullmatch(r"([-+]?[0-9]+)(\.[0-9]*)?[eE]([-+]?[0-9]+)", value)
        if power:
            whole, part, exponent = power.groups()
            number = f"{whole}{part or '.0'}e{int(exponent):+}"
            advice = f"write {number}" if "number" in types else "write it in full"
            return f" (YAML reads it as text; {advice})"
        if re.fullmatch(r"[-+]?[0-9.]+" if "number" in types else r"[-+]?[0-9]+", value):
            return " (a number has neither quotes nor leading zeros)"
    return ""


def describe(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"the text {quote(value)}"
    if isinstance(value, int | float):
        return f"the number {value}"
    kind, unit = ("a list", "items") if isinstance(value, list) else ("a mapping", "keys")
    return f"{kind} of {len(value)} {unit}" if len(value) != 1 else f"{kind} of 1 {unit[:-1]}"


def quote(text: str) -> str:
    """Return text in quotes, on one line, shortened, without the secrets of addresses."""
    return _shorten(mask_addresses(repr(text)))


def _shorten(text: str, limit: int = 80) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def fill_defaults(value: Any, schema: Schema, root: Schema | None = None) -> Any:
    """Return a copy of a valid ``value`` with every default of ``schema``."""
    root = schema if root is None else root
    schema = resolve_reference(schema, root)
    for part in schema.get("allOf", ()):
        value = fill_defaults(value, part, root)
    for branch in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        complete = {**branch, "$defs": root.get("$defs", {})}
        if _make_validator_class()(complete).is_valid(value):
            value = fill_defaults(value, branch, root)
            break
    if isinstance(value, list) and "items" in schema:
        return [fill_defaults(item, schema["items"], root) for item in value]
    if isinstance(value, dict):
        return _fill_object_defaults(value, schema, root)
    return value


def _fill_object_defaults(value: dict[str, Any], schema: Schema, root: Schema) -> dict[str, Any]:
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties")
    filled = dict(value)
    for key, part in properties.items():
        default = resolve_reference(part, root).get("default")
        if key not in value and default is not None:
            filled[key] = fill_defaults(default, part, root)
    for key in value:
        part = properties.get(key, others)
        if isinstance(part, Mapping):
            filled[key] = fill_defaults(value[key], part, root)
    return filled


def knows(pointer: Pointer, schema: Schema, root: Schema) -> bool:
    """Return whether a value at the pointer is possible in the schema."""
    whole = resolve_reference(schema, root)
    if not pointer:
        return True
    key, rest = pointer[0], pointer[1:]
    if any(knows(pointer, form, root) for form in whole.get("oneOf", ())):
        return True
    part = whole.get("properties", {}).get(key, whole.get("additionalProperties"))
    return isinstance(part, Mapping) and knows(rest, part, root)


def resolve_reference(schema: Schema, root: Schema) -> Schema:
    """Return ``schema``. A definition replaces a local reference (``#/$defs/name``)."""
    if "$ref" not in schema:
        return schema
    target: Any = root
    for part in schema["$ref"].removeprefix("#/").split("/"):
        target = target[part]
    return {**resolve_reference(target, root), **{k: v for k, v in schema.items() if k != "$ref"}}
