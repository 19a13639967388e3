"""From a recipe file to a Recipe, with every mistake in it reported at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from firmwright import __version__
from firmwright.documents.document import Document, check_document, read_bytes
from firmwright.documents.schema_check import Finding, find_errors, quote
from firmwright.documents.yaml_text import Pointer
from firmwright.errors import Diagnostic, DiagnosticError
from firmwright.models.formats import FORMATS, UNSUPPORTED_SUFFIXES
from firmwright.recipe.cache import make_cache_key, read_cache, write_cache
from firmwright.recipe.catalog import Catalog, find_name_errors
from firmwright.recipe.devices import load_custom_devices
from firmwright.recipe.files import find_missing_files
from firmwright.recipe.libraries import find_duplicate_names
from firmwright.recipe.overrides import apply_overrides, find_override
from firmwright.recipe.quantization import find_calibration_errors, find_shift_errors
from firmwright.recipe.recipe import Recipe, read_recipe
from firmwright.recipe.schema import load_schema

_FORMATS = {suffix: f.name for f in FORMATS.values() for suffix in f.suffixes}


def load_recipe(
    path: Path,
    overrides: Mapping[str, str],
    catalogue: Catalog,
    cache: Path | None = None,
) -> Recipe:
    """Read, check and complete a recipe.

    ``overrides`` replace what the file says: texts by the names of ``list_overrides``. ``cache`` is
    a folder in which valid recipes are remembered by content. Raises DiagnosticError with all
    mistakes: of YAML, schema and names, and files that are missing.
    """
    content = read_bytes(path, str(path))
    key = make_cache_key(
        __version__,
        load_schema(),
        path.stem,
        content.hex(),
        dict(overrides),
        catalogue.to_data(),
    )
    if cache:
        known = read_cache(cache, key, path)
        # What a device of the user's own takes may have changed without the recipe.
        if known and not known.devices and not any(find_missing_files(known.data, path.parent)):
            return known
    recipe = _check_recipe(path, content, overrides, catalogue)
    if cache:
        write_cache(cache, key, recipe)
    return recipe


def _check_recipe(
    path: Path, content: bytes, overrides: Mapping[str, str], catalogue: Catalog
) -> Recipe:
    document, found = check_document(content, load_schema(), str(path))
    data = document.data
    found += apply_overrides(data, overrides)
    reported = {(d.path, d.line, d.column) for d in found}
    for finding in _find_further_errors(data, path, catalogue):
        diagnostic = _to_diagnostic(finding, document, overrides)
        if (diagnostic.path, diagnostic.line, diagnostic.column) not in reported:
            found.append(diagnostic)
    if found:
        raise DiagnosticError(found)
    return read_recipe(path, _complete(data, path, catalogue))


def _to_diagnostic(
    finding: Finding, document: Document, overrides: Mapping[str, str]
) -> Diagnostic:
    override = find_override(finding.pointer, overrides)
    if override is not None:
        return Diagnostic(override, 0, 0, finding.message)
    return document.make_diagnostic(finding.pointer, finding.message, finding.key)


def _find_further_errors(
    data: Mapping[str, Any], path: Path, catalogue: Catalog
) -> Iterator[Finding]:
    """Yield what the schema cannot know; parts of the wrong type are passed over."""
    own, mistakes = load_custom_devices(data.get("devices"), path.parent, catalogue.devices)
    yield from mistakes
    devices = {**catalogue.devices, **own}
    # Of a device that cannot be had nothing can be said where the target names it.
    unknown = {*(data.get("devices") or ())} - {*own}
    named = {**data, "target": None, "compare": None} if unknown else data
    yield from find_name_errors(named, replace(catalogue, devices=devices))
    yield from find_missing_files(data, path.parent)
    yield from _find_format_errors(data.get("model"))
    yield from _find_evaluate_errors(data)
    yield from _find_rounding_errors(data)
    yield from _find_transform_errors(data.get("transforms"))
    yield from find_duplicate_names(data)
    quantize = data.get("quantize")
    if isinstance(quantize, dict):
        yield from find_shift_errors(quantize)
        yield from find_calibration_errors(quantize)
    if "name" not in data and any(find_errors(path.stem, load_schema()["properties"]["name"])):
        yield Finding(
            ("name",), f"the file's name {quote(path.stem)} is not fit for one; add the key 'name'"
        )


def _get_value(data: Any, pointer: Pointer) -> Any:
    """Return the value at a place, or None where there is no such place."""
    for key in pointer:
        data = data.get(key) if isinstance(data, dict) else None
    return data


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
    source = dict.fromkeys(("path", "url", "python", "sha256", "format")) | given
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


def _complete(data: Mapping[str, Any], path: Path, catalogue: Catalog) -> dict[str, Any]:
    """Return valid data with the values that follow from other keys, the file and the catalogue."""
    platform = catalogue.resolve_platform(data["platform"])
    built = catalogue.find_build_platform(platform, data["compile_for_device"])
    toolchains = catalogue.platform_toolchains.get(built, ())
    emulators = catalogue.platform_emulators.get(built, ())
    complete: dict[str, Any] = {
        "name": path.stem,
        "rounding": _default_rounding(data),
        "toolchain": next(iter(toolchains), None),
        "require_offload": None,
        "batch": None,
        **data,
        "platform": platform,
        "model": {"files": [], **_normalize_model(data["model"])},
        "run": {"inputs": None, "emulator": next(iter(emulators), None), **data["run"]},
    }
    if "quantize" in data:
        complete["quantize"] = _complete_quantization(data["quantize"])
    return complete


def _complete_quantization(quantize: Mapping[str, Any]) -> dict[str, Any]:
    method = "mse" if quantize["scheme"] == "pow2" else "minmax"
    calibration = quantize["calibration"]
    return {
        "per_channel": quantize["arithmetic"] != "shift",
        "bias_correction": "inputs" in calibration,
        **quantize,
        "calibration": {"method": method, "percentile": 99.99, **calibration},
    }
