"""From a recipe file to a Recipe, with every mistake in it reported at once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path, PurePosixPath
from stat import S_ISDIR
from typing import Any

from firmwright import __version__
from firmwright.data.sources import WILDCARDS, module_file, normalize_source
from firmwright.documents.document import Document, check_document, read_bytes
from firmwright.documents.schema_check import Finding, find_errors, quote
from firmwright.documents.yaml_text import Pointer
from firmwright.errors import Diagnostic, DiagnosticError, did_you_mean
from firmwright.models.formats import FORMATS, UNSUPPORTED_SUFFIXES
from firmwright.recipe.cache import make_cache_key, read_cache, write_cache
from firmwright.recipe.catalog import Catalog, find_name_errors
from firmwright.recipe.devices import load_custom_devices
from firmwright.recipe.libraries import find_duplicate_names, find_extension_files
from firmwright.recipe.postprocess import normalize_detection
from firmwright.recipe.quantization import find_calibration_errors, find_shift_errors
from firmwright.recipe.recipe import Recipe, is_platform_file, mix_to_data
from firmwright.recipe.target import read_target

_OVERRIDES: Mapping[str, tuple[str, ...]] = {
    "platform": ("platform",),
    "compile_for_device": ("compile_for_device",),
    "target": ("target",),
    "toolchain": ("toolchain",),
    "emulator": ("run", "emulator"),
    "samples": ("run", "samples"),
    "batch": ("batch",),
    "compare": ("compare",),
}
_WHOLE_NUMBERS = frozenset({"samples", "batch"})
"""Overrides whose text is a whole number."""
_WHOLE_NUMBER = re.compile("-?[0-9]{1,18}")
_SWITCHES = frozenset({"compile_for_device"})
"""Overrides whose text is true or false."""
_SWITCH = {"true": True, "false": False}
_INPUTS: tuple[Pointer, ...] = (
    ("run", "inputs"),
    ("quantize", "calibration", "inputs"),
    ("evaluate", "inputs"),
)
"""Where a recipe names samples."""
_FORMATS = {suffix: f.name for f in FORMATS.values() for suffix in f.suffixes}


def load_recipe(
    path: Path,
    overrides: Mapping[str, str],
    catalogue: Catalog,
    cache: Path | None = None,
) -> Recipe:
    """Read, check and complete a recipe.

    ``overrides`` (the keys of ``_OVERRIDES``, as text) replace what the file says. ``cache`` is
    a folder in which valid recipes are remembered by content. Raises DiagnosticError with all
    mistakes: of YAML, schema and names, and files that are missing.
    """
    shown = str(path)
    content = read_bytes(path, shown)
    schema_text = files("firmwright.recipes").joinpath("recipe.schema.json").read_text("utf-8")
    key = make_cache_key(
        __version__,
        schema_text,
        path.stem,
        content.hex(),
        dict(overrides),
        catalogue.to_data(),
    )
    if cache:
        known = read_cache(cache, key, path)
        # What a device of the user's own takes may have changed without the recipe.
        if known and not known.devices and not any(_find_missing_files(known.to_dict(), path)):
            return known
    recipe = _check_recipe(path, content, json.loads(schema_text), overrides, catalogue)
    if cache:
        write_cache(cache, key, recipe)
    return recipe


def _check_recipe(
    path: Path,
    content: bytes,
    schema: Mapping[str, Any],
    overrides: Mapping[str, str],
    catalogue: Catalog,
) -> Recipe:
    document, found = check_document(content, schema, str(path))
    data = document.data
    found += _apply_overrides(data, overrides, schema)
    reported = {(d.path, d.line, d.column) for d in found}
    for finding in _find_further_errors(data, path, schema, catalogue):
        diagnostic = _to_diagnostic(finding, document, overrides)
        if (diagnostic.path, diagnostic.line, diagnostic.column) not in reported:
            found.append(diagnostic)
    if found:
        raise DiagnosticError(found)
    return Recipe.from_dict(path, _normalize(data, path, catalogue))


def _apply_overrides(
    data: dict[str, Any], overrides: Mapping[str, str], schema: Mapping[str, Any]
) -> Iterator[Diagnostic]:
    """Write the overrides into ``data``; yield what is wrong with them."""
    for name, text in sorted(overrides.items()):
        label = f"{name}={text}"
        if name not in _OVERRIDES:
            hint = did_you_mean(name, _OVERRIDES)
            yield Diagnostic(label, 0, 0, f"unknown override '{name}'{hint}")
            continue
        *parents, last = _OVERRIDES[name]
        holder: Any = data
        part: Any = schema
        for parent in parents:
            holder, part = holder.get(parent), part["properties"][parent]
        value: Any = text
        if name in _WHOLE_NUMBERS and _WHOLE_NUMBER.fullmatch(text):
            value = int(text)
        elif name in _SWITCHES:
            value = _SWITCH.get(text, text)
        for finding in find_errors(value, part["properties"][last]):
            yield Diagnostic(label, 0, 0, finding.message)
        if isinstance(holder, dict):  # else the schema has reported it
            holder[last] = value


def _to_diagnostic(
    finding: Finding, document: Document, overrides: Mapping[str, str]
) -> Diagnostic:
    for name, pointer in _OVERRIDES.items():
        if name in overrides and finding.pointer[: len(pointer)] == pointer:
            return Diagnostic(f"{name}={overrides[name]}", 0, 0, finding.message)
    return document.make_diagnostic(finding.pointer, finding.message, finding.key)


def _find_further_errors(
    data: Mapping[str, Any], path: Path, schema: Mapping[str, Any], catalogue: Catalog
) -> Iterator[Finding]:
    """Yield what the schema cannot know; parts of the wrong type are passed over."""
    own, mistakes = load_custom_devices(data.get("devices"), path.parent, catalogue.devices)
    yield from mistakes
    devices = {**catalogue.devices, **own}
    # Of a device that cannot be had nothing can be said where the target names it.
    unknown = {*(data.get("devices") or ())} - {*own}
    named = {**data, "target": None, "compare": None} if unknown else data
    yield from find_name_errors(named, replace(catalogue, devices=devices))
    yield from _find_missing_files(data, path)
    yield from _find_format_errors(data.get("model"))
    yield from _find_evaluate_errors(data)
    yield from _find_rounding_errors(data)
    yield from _find_transform_errors(data.get("transforms"))
    yield from find_duplicate_names(data)
    quantize = data.get("quantize")
    if isinstance(quantize, dict):
        yield from find_shift_errors(quantize)
        yield from find_calibration_errors(quantize)
    if "name" not in data and any(find_errors(path.stem, schema["properties"]["name"])):
        yield Finding(
            ("name",), f"the file's name {quote(path.stem)} is not fit for one; add the key 'name'"
        )


def _find_missing_files(data: Mapping[str, Any], path: Path) -> Iterator[Finding]:
    for pointer, name, folder_too in _find_file_references(data):
        file = path.parent / name
        shown = quote(str(file))
        try:
            if S_ISDIR(file.stat().st_mode) and not folder_too:
                yield Finding(pointer, f"expected a file, found the folder {shown}")
        except FileNotFoundError:
            advice = "a relative path starts at the recipe's folder"
            yield Finding(pointer, f"no such file: {shown}; {advice}")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            yield Finding(pointer, f"cannot be read: {shown}: {reason}")


def _find_file_references(data: Mapping[str, Any]) -> Iterator[tuple[Pointer, str, bool]]:
    """Yield what names a file of the user, the name, and whether a folder serves as well.

    Takes a recipe as it is written, and its normal form (what the cache holds).
    """
    model, platform = data.get("model"), data.get("platform")
    candidates: list[tuple[Pointer, Any]] = [(("model",), model)]
    candidates += [(p, _get_value(data, p)) for p in (*_INPUTS, ("evaluate", "labels"))]
    metric = _get_value(data, ("evaluate", "metric"))
    if isinstance(metric, str) and ":" in metric:
        candidates.append((("evaluate", "metric"), str(module_file(metric, Path()))))
    extra = _get_value(data, ("transforms", "extra"))
    candidates += [
        (("transforms", "extra", i), str(module_file(reference, Path())))
        for i, reference in enumerate(extra if isinstance(extra, list) else ())
        if isinstance(reference, str) and ":" in reference
    ]
    devices = data.get("devices")
    candidates += [
        (("devices", name), str(module_file(reference, Path())))
        for name, reference in (devices.items() if isinstance(devices, dict) else ())
        if isinstance(reference, str) and ":" in reference
    ]
    if isinstance(model, dict):
        candidates.append((("model", "path"), model.get("path")))
        files = model.get("files")
        candidates += [
            (("model", "files", i), file)
            for i, file in enumerate(files if isinstance(files, list) else ())
        ]
    if isinstance(platform, str) and is_platform_file(platform):
        candidates.append((("platform",), platform))
    candidates += [*find_extension_files(data), *_find_class_file(data)]
    yield from ((pointer, name, False) for pointer, name in candidates if isinstance(name, str))
    for place in _INPUTS:
        inputs = _get_value(data, place)
        for name, source in inputs.items() if isinstance(inputs, dict) else ():
            yield from _find_source_files((*place, name), source)


def _get_value(data: Any, pointer: Pointer) -> Any:
    """Return the value at a place, or None where there is no such place."""
    for key in pointer:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _find_source_files(pointer: Pointer, source: Any) -> Iterator[tuple[Pointer, str, bool]]:
    """Yield the files and folders of one input's source; patterns are looked up when it is read."""
    if isinstance(source, str):
        yield pointer, source, False
    for kind in ("arrays", "raw", "pictures", "files") if isinstance(source, dict) else ():
        stated = source.get(kind)
        listed = stated if isinstance(stated, list) else [stated]
        for index, entry in enumerate(listed):
            place = (*pointer, kind, index) if isinstance(stated, list) else (*pointer, kind)
            own = isinstance(entry, dict) and entry.get("package") is None
            name = entry.get("path") if own else entry
            if isinstance(name, str) and not any(c in name for c in WILDCARDS):
                yield place, name, kind != "arrays"
    for key in ("python", "function") if isinstance(source, dict) else ():
        if isinstance(source.get(key), str):
            yield (*pointer, key), str(module_file(source[key], Path())), False


def _find_class_file(data: Mapping[str, Any]) -> Iterator[tuple[Pointer, Any]]:
    postprocess = data.get("postprocess", data)
    detection = postprocess.get("detection") if isinstance(postprocess, dict) else None
    classes = detection.get("classes") if isinstance(detection, dict) else None
    pointer = ("postprocess", "detection", "classes")
    if isinstance(classes, dict) and isinstance(classes.get("file"), dict):
        yield pointer, classes["file"].get("path")
    yield pointer, classes


def _find_format_errors(model: Any) -> Iterator[Finding]:
    source = _normalize_model(model)
    file = source["path"] or source["url"]
    if isinstance(file, str) and source["format"] is None:
        suffix = _get_suffix(file)
        if suffix in UNSUPPORTED_SUFFIXES:
            yield Finding(("model",), UNSUPPORTED_SUFFIXES[suffix])
            return
        suffixes = ", ".join(sorted(_FORMATS))
        message = f"no format can be told from the suffix {quote(suffix)}; expected {suffixes}"
        yield Finding(("model",), f"{message}, or a key 'format'")


def _find_evaluate_errors(data: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield labels and thresholds of what the recipe neither computes nor measures."""
    labels = _get_value(data, ("evaluate", "labels"))
    boxes = {
        ("evaluate", "labels"): isinstance(labels, str) and labels.endswith(".json"),
        ("evaluate", "thresholds", "boxes"): _get_value(data, ("evaluate", "thresholds", "boxes")),
    }
    if not _get_value(data, ("postprocess", "detection")):
        for pointer, present in boxes.items():
            if present:
                yield Finding(pointer, "boxes are found by `postprocess.detection`; add that key")
    metric = ("evaluate", "thresholds", "metric")
    if _get_value(data, metric) is not None and not _get_value(data, ("evaluate", "metric")):
        yield Finding(metric, "there is no metric to hold to it; add `evaluate.metric`")


def _find_rounding_errors(data: Mapping[str, Any]) -> Iterator[Finding]:
    """A TFLite model states its arithmetic to the bit, so it is rounded in no other way."""
    if _default_rounding(data) == "tflite" and data.get("rounding") == "onnx":
        message = "a TFLite model defines its own rounding; leave the key out, or state tflite"
        yield Finding(("rounding",), message)


def _find_transform_errors(transforms: Any) -> Iterator[Finding]:
    on, off = _get_value(transforms, ("with",)), _get_value(transforms, ("without",))
    if not (isinstance(on, list) and isinstance(off, list)):
        return
    for index, name in enumerate(off):
        if name in on:
            pointer = ("transforms", "without", index)
            yield Finding(pointer, f"{quote(str(name))} is switched on and off")


def _default_rounding(data: Mapping[str, Any]) -> str:
    """Return the model's own rounding; what firmwright quantizes is a QDQ ONNX graph."""
    quantized_tflite = _normalize_model(data.get("model"))["format"] == "tflite"
    return "tflite" if quantized_tflite and "quantize" not in data else "onnx"


def _normalize_model(model: Any) -> dict[str, Any]:
    given = model if isinstance(model, dict) else {"path": model}
    keys = ("path", "url", "python", "files", "sha256", "format")
    source = {key: given.get(key) for key in keys}
    file = source["path"] or source["url"]
    if source["format"] is None and isinstance(file, str):
        source["format"] = _FORMATS.get(_get_suffix(file))
    elif source["python"]:
        source["format"] = "relax"
    return source


def _get_suffix(file: str) -> str:
    if file.startswith(("http://", "https://")):
        file = file.partition("#")[0].partition("?")[0]
    return PurePosixPath(file).suffix.lower()


def _normalize(data: dict[str, Any], path: Path, catalogue: Catalog) -> dict[str, Any]:
    """Return valid data in the one spelling that Recipe.from_dict takes."""
    platform, run = catalogue.resolve_platform(data["platform"]), data["run"]
    model = _normalize_model(data["model"])
    model["files"] = model["files"] or []
    if model["sha256"]:
        model["sha256"] = model["sha256"].lower()
    built = catalogue.find_build_platform(platform, data["compile_for_device"])
    toolchains = catalogue.platform_toolchains.get(built, ())
    emulators = catalogue.platform_emulators.get(built, ())
    mixes = {key: read_target(data[key])[0] for key in ("target", "compare") if key in data}
    batch = data.get("batch")
    quantizing: dict[str, Any] = {}
    if "quantize" in data:
        method = "mse" if data["quantize"]["scheme"] == "pow2" else "minmax"
        calibration = {
            "method": method,
            "percentile": 99.99,
            **_normalize_inputs(data["quantize"]["calibration"]),
        }
        quantizing["quantize"] = {
            "per_channel": data["quantize"]["arithmetic"] != "shift",
            "bias_correction": calibration["inputs"] is not None,
            **data["quantize"],
            "calibration": calibration,
        }
    if "evaluate" in data:
        quantizing["evaluate"] = _normalize_inputs(data["evaluate"])
    detection = data.get("postprocess", {}).get("detection")
    return {
        **{key: value for key, value in data.items() if key != "postprocess"},
        "name": data.get("name", path.stem),
        "platform": platform,
        "model": model,
        **{key: mix_to_data(tuple(d for _, d in devices)) for key, devices in mixes.items()},
        "rounding": data.get("rounding", _default_rounding(data)),
        "toolchain": data.get("toolchain", next(iter(toolchains), None)),
        "require_offload": _parse_percentage(data.get("require_offload")),
        "batch": {"size": batch, "require": False} if isinstance(batch, int) else batch,
        "run": {"emulator": next(iter(emulators), None), **_normalize_inputs(run)},
        "detection": normalize_detection(detection) if detection else None,
        **quantizing,
    }


def _parse_percentage(written: str | float | None) -> float | None:
    """Return 90.0 for ``90 %`` and 90."""
    return None if written is None else float(str(written).removesuffix("%"))


def _normalize_inputs(holder: Mapping[str, Any]) -> dict[str, Any]:
    inputs = holder.get("inputs")
    if isinstance(inputs, dict):
        inputs = {name: normalize_source(given) for name, given in inputs.items()}
    return {**holder, "inputs": inputs}
