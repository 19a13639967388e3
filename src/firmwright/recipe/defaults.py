"""Values of a recipe that follow from other keys, from its file's name and from the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from firmwright.documents.schema_check import quote
from firmwright.models.formats import FORMATS, UNSUPPORTED_SUFFIXES
from firmwright.recipe.catalog import Catalog

FORMATS_BY_SUFFIX = {suffix: f.name for f in FORMATS.values() for suffix in f.suffixes}


def complete_data(data: Mapping[str, Any], path: Path, catalogue: Catalog) -> dict[str, Any]:
    """Return valid data with the values that follow from other keys, the file and the catalogue."""
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
        complete["quantize"] = complete_quantization(data["quantize"])
    return complete


def find_default_tolerance(data: Mapping[str, Any]) -> dict[str, float]:
    """Return the error that the reference's sums in float32 may have.

    A sum of n terms of float32 errs by up to n · 2^-24 of its magnitude, of a few thousand by a
    ten-thousandth. An error that decides between two neighbors of a grid, or of a 16-bit float,
    moves a result by a step.
    """
    steps = float(data.get("rounding", find_default_rounding(data)) == "onnx")
    return {"absolute": 0.0, "relative": 0.0, "range": 1e-4, "steps": steps}


def complete_quantization(quantize: Mapping[str, Any]) -> dict[str, Any]:
    method = "mse" if quantize["scheme"] == "pow2" else "minmax"
    calibration = quantize["calibration"]
    return {
        "per_channel": quantize["arithmetic"] != "shift",
        "bias_correction": "inputs" in calibration,
        **quantize,
        "calibration": {"method": method, "percentile": 99.99, **calibration},
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
    """Say of a model whose suffix tells no format what to do."""
    suffix = get_suffix(file)
    if suffix in UNSUPPORTED_SUFFIXES:
        return UNSUPPORTED_SUFFIXES[suffix]
    suffixes = ", ".join(sorted(FORMATS_BY_SUFFIX))
    found = f"no format can be told from the suffix {quote(suffix)}"
    return f"{found}; expected {suffixes}, or a key 'format'"


def find_default_rounding(data: Mapping[str, Any]) -> str:
    """Return the model's own rounding; what firmwright quantizes is a QDQ ONNX graph."""
    quantized_tflite = complete_model(data.get("model"))["format"] == "tflite"
    return "tflite" if quantized_tflite and "quantize" not in data else "onnx"
