"""Derives values of a recipe from other keys, from the file name and from the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from firmwright.documents.schema_check import quote
from firmwright.models.formats import FORMATS, describe_unsupported
from firmwright.recipe.catalog import Catalog

PACKED_TYPES = ["int4", "int8"]
COMPRESSED_TYPES = ["int2", "int3", "int4", "int5", "int6", "int8", "cluster8", "cluster16"]
"""The types of weights that a search tries, without and with compression."""

FORMATS_BY_SUFFIX = {suffix: f.name for f in FORMATS.values() for suffix in f.suffixes}


def complete_data(data: Mapping[str, Any], path: Path, catalogue: Catalog) -> dict[str, Any]:
    """Return valid data with the values that follow from other keys, the file and the catalog."""
    platform = catalogue.resolve_platform(data["platform"])
    _, built = catalogue.find_build_platform(platform, data["compile_for_device"])
    toolchains, emulators = (built.toolchains, built.emulators) if built else ((), ())
    complete: dict[str, Any] = {
        "name": path.stem,
        "rounding": find_default_rounding(data),
        "toolchain": next(iter(toolchains), None),
        "require_offload": None,
        "batch": None,
        **data,
        "platform": platform,
        "model": {"files": [], **complete_model(data["model"])},
        "run": {
            "inputs": None,
            "emulator": next(iter(emulators), None),
            "tolerance": find_default_tolerance(data),
            **data["run"],
        },
    }
    if "quantize" in data:
        complete["quantize"] = complete_quantization(data)
    return complete


def find_default_tolerance(data: Mapping[str, Any]) -> dict[str, float]:
    """Return the tolerance for the errors of the reference's sums in float32.

    The error of a float32 sum of n terms is at most n · 2^-24 of the sum's magnitude. For a few
    thousand terms, this error is a ten-thousandth. If a result is near the middle of two quantized
    values or 16-bit floats, the error can move the result by one step.
    """
    steps = float(data.get("rounding", find_default_rounding(data)) == "onnx")
    return {"absolute": 0.0, "relative": 0.0, "range": 1e-4, "steps": steps}


def complete_quantization(data: Mapping[str, Any]) -> dict[str, Any]:
    quantize = data["quantize"]
    method = "mse" if quantize["scheme"] == "pow2" else "minmax"
    calibration = quantize["calibration"]
    narrow = COMPRESSED_TYPES if "compress" in data else PACKED_TYPES
    search = {"search": {"types": narrow, **quantize["search"]}} if "search" in quantize else {}
    return {
        "per_channel": quantize["arithmetic"] != "shift",
        "bias_correction": "inputs" in calibration,
        **quantize,
        "calibration": {"method": method, "percentile": 99.99, **calibration},
        **search,
    }


def complete_model(model: Any) -> dict[str, Any]:
    given = model if isinstance(model, dict) else {"path": model}
    source = dict.fromkeys(("path", "url", "python", "sha256", "format")) | given
    file = source["path"] or source["url"]
    if source["format"] is None and isinstance(file, str):
        source["format"] = FORMATS_BY_SUFFIX.get(get_suffix(file))
    elif source["python"]:
        source["format"] = "relax"
    return source


def get_suffix(file: str) -> str:
    if file.startswith(("http://", "https://")):
        file = file.partition("#")[0].partition("?")[0]
    return PurePosixPath(file).suffix.lower()


def describe_unknown_format(file: str) -> str:
    """Return the message for a model whose suffix does not identify a format."""
    suffix = get_suffix(file)
    if advice := describe_unsupported(suffix, file):
        return advice
    suffixes = ", ".join(sorted(FORMATS_BY_SUFFIX))
    problem = f"the suffix {quote(suffix)} does not identify a model format"
    return f"{problem}; expected {suffixes}, or a key 'format'"


def find_default_rounding(data: Mapping[str, Any]) -> str:
    """Return the rounding of the model. A model that firmwright quantizes is QDQ ONNX."""
    quantized_tflite = complete_model(data.get("model"))["format"] == "tflite"
    return "tflite" if quantized_tflite and "quantize" not in data else "onnx"
