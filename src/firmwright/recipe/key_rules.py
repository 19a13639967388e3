"""Checks the rules between the keys of a recipe that a schema cannot state.

Values of the wrong type are skipped, because the schema has reported them.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from firmwright.codegen.names import is_reserved
from firmwright.data.fetch import WrongDigestError, check_digest
from firmwright.data.sample_sources import module_file
from firmwright.documents.schema_check import Finding, find_errors, quote
from firmwright.documents.yaml_text import Pointer, get_value
from firmwright.errors import UserError
from firmwright.recipe import defaults
from firmwright.recipe.build_systems import find_export_errors
from firmwright.recipe.catalog import Catalog, KnownDevice, find_name_errors
from firmwright.recipe.releases import find_release_errors
from firmwright.recipe.schema import load_schema
from firmwright.recipe.user_files import find_missing_files, find_references
from firmwright.targets.custom import load_custom_target


def find_rule_errors(data: Mapping[str, Any], path: Path, catalogue: Catalog) -> Iterator[Finding]:
    stated = data.get("devices")
    custom, mistakes = load_custom_devices(stated, path.parent, catalogue.devices)
    yield from mistakes
    devices = {**catalogue.devices, **custom}
    # If a custom device cannot be imported, its options cannot be checked.
    unknown = stated.keys() - custom.keys() if isinstance(stated, dict) else set()
    named = {**data, "target": None, "compare": None} if unknown else data
    yield from find_name_errors(named, replace(catalogue, devices=devices))
    yield from find_missing_files(find_references(data), path.parent)
    yield from find_format_errors(data.get("model"), path.parent)
    yield from find_digest_errors(data.get("model"), path.parent)
    yield from find_flag_errors(data)
    yield from find_c_name_errors(data)
    yield from find_class_errors(data)
    yield from find_evaluate_errors(data)
    yield from find_device_calibration_errors(data)
    yield from find_idle_files(data)
    yield from find_rounding_errors(data)
    yield from find_export_errors(data)
    yield from find_slot_errors(data)
    yield from find_release_errors(data)
    yield from find_transform_errors(data.get("transforms"))
    yield from find_duplicate_names(data)
    quantize = data.get("quantize")
    if isinstance(quantize, dict):
        yield from find_shift_errors(quantize)
        yield from find_calibration_errors(quantize)
        yield from find_search_errors(quantize, data.get("evaluate"), data.get("compress"))
        yield from find_block_errors(quantize, data.get("compress"))
    if "name" not in data and any(find_errors(path.stem, load_schema()["properties"]["name"])):
        yield Finding(
            ("name",),
            f"the file's name {quote(path.stem)} is not a valid name of a network; add the key "
            "'name'",
        )


def load_custom_devices(
    devices: Any, folder: Path, installed: Collection[str]
) -> tuple[dict[str, KnownDevice], list[Finding]]:
    """Import the devices of a recipe in ``folder``, and return them by name, and the errors.

    Values of the wrong type and missing files are skipped, because other checks report them.
    """
    known_devices: dict[str, KnownDevice] = {}
    mistakes: list[Finding] = []
    for name, reference in devices.items() if isinstance(devices, dict) else ():
        pointer = ("devices", name)
        if not isinstance(reference, str) or ":" not in reference:
            continue
        if name in installed:
            message = f"{quote(name)} is the name of an installed device; choose another name"
            mistakes.append(Finding(pointer, message, key=True))
        elif module_file(reference, folder).is_file():
            try:
                target = load_custom_target(name, reference, folder)
            except UserError as error:
                mistakes.append(Finding(pointer, str(error)))
            else:
                known_devices[name] = KnownDevice(target.options, target.is_fallback)
    return known_devices, mistakes


def find_idle_files(data: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the key `files` of a recipe without Python code, because only such code reads files."""
    if data.get("files") and not any(r.format.is_function for r in find_references(data)):
        yield Finding(
            ("files",), "the recipe names no Python function that reads these files; remove the key"
        )


def find_format_errors(model: Any, folder: Path) -> Iterator[Finding]:
    """Yield an error for a model of an unknown format.

    A folder is not reported, because another check reports it.
    """
    source = defaults.complete_model(model)
    file = source["path"] or source["url"]
    path = folder / source["path"] if isinstance(source["path"], str) else None
    is_folder = path and os.path.isdir(path)  # noqa: PTH112 (Path.is_dir raises for a long name)
    if isinstance(file, str) and source["format"] is None and not is_folder:
        yield Finding(("model",), defaults.describe_unknown_format(file))


def find_digest_errors(model: Any, folder: Path) -> Iterator[Finding]:
    """Yield an error if the digest of a local model differs. Downloads are checked later."""
    source = defaults.complete_model(model)
    file, stated = source["path"], source["sha256"]
    if not (isinstance(file, str) and isinstance(stated, str)):
        return
    with suppress(OSError, ValueError):  # other checks report missing files
        try:
            check_digest((folder / file).read_bytes(), stated.lower(), file)
        except WrongDigestError as error:
            yield Finding(("model", "sha256"), str(error))


def find_class_errors(data: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield errors of class names: a number without names, or classes next to a detection.

    The labels of a detector contain class names, so each name must be unique. Some data sets for
    classifiers have two classes with one name.
    """
    pointer: Pointer = ("postprocess", "classes")
    classes = get_value(data, pointer)
    if isinstance(classes, int):
        yield Finding(
            pointer, "expected the names of the classes, because the network states their number"
        )
    if classes is not None and get_value(data, ("postprocess", "detection")):
        yield Finding(
            pointer,
            "a detector's classes belong to `postprocess.detection.classes`; move them there",
        )
    pointer = ("postprocess", "detection", "classes")
    names = get_value(data, pointer)
    for index, name in enumerate(names if isinstance(names, list) else ()):
        if name in names[:index]:
            yield Finding(
                (*pointer, index),
                f"{quote(name)} is also class {names.index(name)}; names must differ",
            )


def find_evaluate_errors(data: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield labels and thresholds for values that the recipe does not compute or measure."""
    labels = get_value(data, ("evaluate", "labels"))
    boxes = {
        ("evaluate", "labels"): isinstance(labels, str) and labels.endswith(".json"),
        ("evaluate", "thresholds", "boxes"): get_value(data, ("evaluate", "thresholds", "boxes")),
    }
    if not get_value(data, ("postprocess", "detection")):
        for pointer, present in boxes.items():
            if present:
                yield Finding(pointer, "only `postprocess.detection` finds boxes; add this key")
    metric = ("evaluate", "thresholds", "metric")
    if get_value(data, metric) is not None and not get_value(data, ("evaluate", "metric")):
        yield Finding(metric, "the recipe has no metric for this threshold; add `evaluate.metric`")
    top1 = ("evaluate", "thresholds", "top1")
    if get_value(data, top1) is not None and not labels:
        message = (
            "without labels, every class counts as correct; add `evaluate.labels`, or use "
            "`top1_loss`"
        )
        yield Finding(top1, message)


def find_rounding_errors(data: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield a rounding that contradicts a TFLite model, which defines its arithmetic exactly."""
    if defaults.find_default_rounding(data) == "tflite" and data.get("rounding") == "onnx":
        message = "a TFLite model defines its rounding; remove the key, or state tflite"
        yield Finding(("rounding",), message)


def find_transform_errors(transforms: Any) -> Iterator[Finding]:
    on, off = get_value(transforms, ("with",)), get_value(transforms, ("without",))
    if not (isinstance(on, list) and isinstance(off, list)):
        return
    for index, name in enumerate(off):
        if name in on:
            pointer = ("transforms", "without", index)
            yield Finding(
                pointer, f"{quote(str(name))} is both enabled and disabled; remove one entry"
            )


def find_duplicate_names(data: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield libraries with one name, and their files with one name, because they share a folder."""
    libraries = data.get("libraries")
    listed = enumerate(libraries if isinstance(libraries, list) else ())
    named = [(("libraries", i, "name"), e.get("name")) for i, e in listed if isinstance(e, dict)]
    references = [r for r in find_references(data) if r.pointer[0] == "libraries"]
    files = [(r.pointer, Path(r.value).name) for r in references]
    for what, pairs in (("libraries", named), ("files of libraries", files)):
        names = [name for _, name in pairs]
        for index, (pointer, name) in enumerate(pairs):
            if isinstance(name, str) and name in names[:index]:
                yield Finding(pointer, f"two {what} are named {quote(name)}; rename one")


def find_device_calibration_errors(data: Mapping[str, Any]) -> Iterator[Finding]:
    if data.get("calibration") is not None and data.get("quantize") is not None:
        message = "`quantize` also has a calibration; remove one of the two keys"
        yield Finding(("calibration",), message)


def find_shift_errors(quantize: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield keys that contradict shift arithmetic.

    Shift arithmetic has one shift per layer, between int8 tensors whose scales are powers of two.
    """
    if quantize.get("arithmetic") != "shift":
        return
    if quantize.get("scheme", "affine") == "affine":
        message = "`shift` needs scales that are powers of two; add `scheme: pow2`"
        yield Finding(("quantize", "arithmetic"), message)
    if quantize.get("per_channel") is True:
        message = "`arithmetic: shift` has one shift, and one weight scale, per layer"
        yield Finding(("quantize", "per_channel"), message)
    layers = quantize.get("layers")
    listed = enumerate(layers if isinstance(layers, list) else ())
    entries: list[tuple[Pointer, Any]] = [(("quantize",), quantize)]
    entries += [(("quantize", "layers", index), entry) for index, entry in listed]
    for pointer, entry in entries:
        for key in ("activations", "weights") if isinstance(entry, dict) else ():
            if entry.get(key, "int8") != "int8":
                yield Finding((*pointer, key), "`arithmetic: shift` supports only int8; write int8")


def find_block_errors(quantize: Mapping[str, Any], compress: Any) -> Iterator[Finding]:
    """Yield a block without int4 weights, or without ``compress``, which stores the factors."""
    if "block" not in quantize:
        return
    layers = quantize.get("layers")
    entries = [quantize, *(layers if isinstance(layers, list) else ())]
    types = {entry.get("weights") for entry in entries if isinstance(entry, dict)}
    if "int4" not in types and "search" not in quantize:
        yield Finding(("quantize", "block"), "only int4 weights have blocks; add `weights: int4`")
    if compress is None:
        message = "only `compress` stores blocks in 4 bits per weight; add `compress: true`"
        yield Finding(("quantize", "block"), message)


def find_search_errors(
    quantize: Mapping[str, Any], evaluate: Any, compress: Any
) -> Iterator[Finding]:
    """Yield limits of a search that cannot be measured, or that another limit contradicts."""
    search = quantize.get("search")
    if not isinstance(search, dict):
        return
    if quantize.get("arithmetic") == "shift":
        message = "`arithmetic: shift` supports only int8 weights; remove one of the two"
        yield Finding(("quantize", "search"), message)
    known = evaluate.keys() if isinstance(evaluate, dict) else set()
    if "accuracy" in search and not known & {"labels", "metric"}:
        message = (
            "the loss of accuracy needs the right results of samples; add `evaluate` with `labels` "
            "or a `metric`"
        )
        yield Finding(("quantize", "search", "accuracy"), message)
    if isinstance(compress, dict) and "flash" in compress:
        message = "a search is limited by `quantize.search.flash`; write `compress: true`"
        yield Finding(("compress", "flash"), message)


def find_calibration_errors(quantize: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield calibration keys that contradict the method.

    A calibration has samples, or it uses the ranges of a quantized model. Some keys need samples.
    """
    calibration = quantize.get("calibration")
    if not isinstance(calibration, dict):
        return
    block = ("quantize", "calibration")
    if "percentile" in calibration and calibration.get("method") != "percentile":
        message = "only the method `percentile` reads this key; add `method: percentile`"
        yield Finding((*block, "percentile"), message)
    if calibration.get("method") != "model":
        if "inputs" not in calibration:
            yield Finding(
                block, "the key 'inputs' is missing; add samples that show the range of values"
            )
        return
    if "inputs" in calibration:
        message = "`method: model` uses the ranges of the model; remove the samples"
        yield Finding((*block, "inputs"), message)
    if "search" in quantize:
        message = "a search measures samples; add `inputs`, and remove `method: model`"
        yield Finding((*block, "method"), message)
    elif quantize.get("arithmetic") != "shift":
        message = "`model` needs a quantized model and `arithmetic: shift`; add this key"
        yield Finding((*block, "method"), message)
    needs = "needs samples, but `calibration.method: model` has none"
    reasons = {
        "equalize": "changes the ranges that `calibration.method: model` uses",
        "compensate_rounding": needs,
        "bias_correction": needs,
    }
    for key, reason in reasons.items():
        if quantize.get(key) is True:
            message = f"{reason}; remove this key, or use another method"
            yield Finding(("quantize", key), message)


READING = (
    "@", "-B", "-I", "-L", "-T", "-Wl,-T", "-Wl,@", "--include", "--specs", "--sysroot",
    "-fpass-plugin", "-fplugin", "-fprofile-instr-use", "-fprofile-use", "-idirafter", "-imacros",
    "-include", "-iprefix", "-iquote", "-isysroot", "-isystem", "-iwithprefix", "-specs",
)  # fmt: skip
"""The prefixes of flags that read files, from the manuals of GCC and Clang."""


def find_flag_errors(data: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield flags that read files.

    The build does not detect changes of these files, and bundles do not contain them.
    """
    flags = data.get("cflags")
    for number, flag in enumerate(flags if isinstance(flags, list) else ()):
        if isinstance(flag, str) and flag.startswith(READING):
            yield Finding(
                ("cflags", number),
                f"with '{flag}', the compiler reads files that the build does not know; list "
                "headers and sources under `libraries`",
            )


def find_c_name_errors(data: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield an error for each reserved or shared name.

    The header has macros in capitals, so two names that differ only in case collide.
    """
    for key in ("inputs", "outputs"):
        entries, taken = data.get(key), dict[str, str]()
        for name, entry in entries.items() if isinstance(entries, dict) else ():
            chosen = entry.get("c_name") if isinstance(entry, dict) else None
            if not isinstance(chosen, str):
                continue
            pointer = (key, name, "c_name")
            other = taken.setdefault(chosen.lower(), name)
            if is_reserved(chosen):
                reason = "is a keyword of C or C++, or a macro of the C library or Arduino"
                yield Finding(pointer, f"{quote(chosen)} {reason}; choose another name")
            elif other != name:
                message = f"{quote(chosen)} is also the C name of {quote(other)}"
                yield Finding(pointer, f"{message}; choose another name")


IN_ONE_IMAGE: Mapping[Pointer, str] = {
    ("hooks",): "the network calls functions of the firmware, which is another image",
    ("selftest",): "golden samples belong to one network, but the slot can have another network",
    ("demo",): "the demo application contains the network",
    ("export",): "packages contain the network",
    ("libraries",): "the RAM of your functions has no address that both images know",
    ("postprocess", "detection"): "the firmware finds boxes with numbers of one network",
}
"""The keys that a slot does not support, and the reasons."""


def find_slot_errors(data: Mapping[str, Any]) -> Iterator[Finding]:
    if not isinstance(data.get("slot"), Mapping):
        return
    if data.get("arena") != "caller":
        message = "a network in a slot needs the RAM of the caller; add `arena: caller`"
        yield Finding(("slot",), message)
    for pointer, reason in IN_ONE_IMAGE.items():
        value: Any = data
        for key in pointer:
            value = value.get(key) if isinstance(value, Mapping) else None
        if value:
            yield Finding(
                pointer, f"cannot be combined with `slot`: {reason}; remove one of the keys"
            )
