"""A checked recipe, every default filled in.

``Recipe.to_dict`` is the normal form: plain data with one spelling for each thing
that a recipe file may say in several ways. It is what the cache holds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from firmwright.data.sources import portable_path, portable_source
from firmwright.recipe.libraries import Library, portable_library
from firmwright.recipe.postprocess import Detection, portable_detection
from firmwright.recipe.quantization import (
    EvaluateOptions,
    Inputs,
    QuantizeOptions,
    read_inputs,
    to_data,
)
from firmwright.targets import DeviceSpec


@dataclass(frozen=True)
class ModelSource:
    """Where the model comes from: one of ``path``, ``url`` and ``python``, the others are None.

    A URL has a ``sha256``. ``python`` is ``module:function``, ``files`` what that function reads.
    """

    path: str | None
    url: str | None
    sha256: str | None
    format: str
    """A key of :data:`firmwright.models.FORMATS`."""
    python: str | None = None
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class InputShape:
    """Elements along each axis of an input that the model leaves open."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Tolerance:
    """Allowed difference from the reference: absolute + relative * abs(reference).

    ``absolute`` is in units of the output (for integers, steps of the last digit).
    """

    absolute: float
    relative: float


@dataclass(frozen=True)
class BatchRequest:
    """Samples at once: the largest number up to ``size`` that fits, or with ``require`` all."""

    size: int
    require: bool


@dataclass(frozen=True)
class TransformOptions:
    """Rewrites by name, switched on and off, and the user's own as ``module:function``."""

    switched_on: tuple[str, ...] = ()
    switched_off: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, list[str]]:
        """Return what the recipe's key ``transforms`` says."""
        on, off = sorted(self.switched_on), sorted(self.switched_off)
        return {"with": on, "without": off, "extra": list(self.extra)}

    @classmethod
    def from_dict(cls, data: Mapping[str, list[str]]) -> TransformOptions:
        """Return the options of a recipe's key ``transforms``, defaults filled in."""
        return cls(tuple(data["with"]), tuple(data["without"]), tuple(data["extra"]))


@dataclass(frozen=True)
class RunOptions:
    """The run that proves the firmware.

    ``inputs`` is one file, or (input name, source) pairs, or None for random data.
    ``emulator`` is None where only the user's own platform file can tell the first one.
    """

    inputs: Inputs | None
    samples: int
    seed: int
    emulator: str | None
    tolerance: Tolerance


@dataclass(frozen=True)
class DemoOptions:
    """The demo application: what it measures (``profile``), checks, and whether it ever ends.

    ``profile`` is ``none``, ``global`` (the network) or ``individual`` (each layer as well).
    """

    profile: str
    compare: bool
    indefinite: bool


@dataclass(frozen=True)
class Recipe:
    """One recipe; ``path`` is its file as the user gave it, other paths are as it states them.

    ``toolchain`` is None where only the user's own platform file can tell the first one.
    """

    path: Path
    name: str
    model: ModelSource
    inputs: tuple[InputShape, ...]
    platform: str
    target: tuple[DeviceSpec, ...]
    rounding: str
    """``tflite`` or ``onnx``: how real results become integers again."""
    toolchain: str | None
    c_prefix: str
    cflags: tuple[str, ...]
    batch: BatchRequest | None
    run: RunOptions
    compile_for_device: bool = True
    """Without, the platform's host stands in for it."""
    fuse_layers: bool = True
    allow_fallback: bool = True
    require_offload: float | None = None
    """Percentage of multiply-accumulates that the devices in front of the last have to take."""
    detection: Detection | None = None
    quantize: QuantizeOptions | None = None
    evaluate: EvaluateOptions | None = None
    compare: tuple[DeviceSpec, ...] = ()
    devices: tuple[tuple[str, str], ...] = ()
    """Devices of the user's own by name, each as ``module:function``."""
    transforms: TransformOptions | None = None
    demo: DemoOptions | None = None
    extensions: tuple[str, ...] = ()
    """The user's own strategies: a ``module:function`` each."""
    libraries: tuple[Library, ...] = ()

    def resolve(self, path: str) -> Path:
        """Return a path of the recipe (relative to its folder, or absolute) for opening."""
        return self.path.parent / path

    def to_dict(self) -> dict[str, Any]:
        """Return the normal form, without the place of the recipe itself."""
        data = asdict(self)
        del data["path"]
        data["inputs"] = {i.name: {"shape": list(i.shape)} for i in self.inputs}
        data["target"] = mix_to_data(self.target)
        data["compare"] = mix_to_data(self.compare)
        data["devices"] = dict(self.devices)
        data["extensions"] = list(self.extensions)
        data["libraries"] = [library.to_dict() for library in self.libraries]
        for key in ("compare", "demo", "devices", "extensions", "libraries"):
            if not data[key]:
                del data[key]
        data["cflags"] = list(self.cflags)
        data["model"]["files"] = list(self.model.files)
        if isinstance(self.run.inputs, tuple):
            data["run"]["inputs"] = {name: asdict(source) for name, source in self.run.inputs}
        if self.detection is None:
            del data["detection"]
        for key, options in (("quantize", self.quantize), ("evaluate", self.evaluate)):
            del data[key]
            if options is not None:
                data[key] = to_data(options)
        del data["transforms"]
        if self.transforms is not None:
            data["transforms"] = self.transforms.to_dict()
        return data

    @classmethod
    def from_dict(cls, path: Path, data: Mapping[str, Any]) -> Recipe:
        """Return the recipe of a normal form."""
        run, detection = data["run"], data.get("detection")
        transforms = data.get("transforms")
        given = run["inputs"]
        tolerance = Tolerance(**{k: float(v) for k, v in run["tolerance"].items()})
        return cls(
            path=path,
            name=data["name"],
            model=ModelSource(**{**data["model"], "files": tuple(data["model"]["files"])}),
            inputs=tuple(
                InputShape(name, tuple(entry["shape"]))
                for name, entry in sorted(data["inputs"].items())
            ),
            platform=data["platform"],
            target=mix_from_data(data["target"]),
            rounding=data["rounding"],
            toolchain=data["toolchain"],
            c_prefix=data["c_prefix"],
            cflags=tuple(data["cflags"]),
            batch=BatchRequest(**data["batch"]) if data["batch"] else None,
            run=RunOptions(
                inputs=None if given is None else read_inputs(given),
                samples=run["samples"],
                seed=run["seed"],
                emulator=run["emulator"],
                tolerance=tolerance,
            ),
            compile_for_device=data["compile_for_device"],
            fuse_layers=data["fuse_layers"],
            allow_fallback=data["allow_fallback"],
            require_offload=data["require_offload"],
            detection=Detection.from_dict(detection) if detection else None,
            quantize=QuantizeOptions.from_data(data["quantize"]) if "quantize" in data else None,
            evaluate=EvaluateOptions.from_data(data["evaluate"]) if "evaluate" in data else None,
            compare=mix_from_data(data.get("compare", ())),
            devices=tuple(sorted(data.get("devices", {}).items())),
            transforms=TransformOptions.from_dict(transforms) if transforms else None,
            demo=DemoOptions(**data["demo"]) if "demo" in data else None,
            extensions=tuple(data.get("extensions", ())),
            libraries=tuple(Library.from_dict(entry) for entry in data.get("libraries", ())),
        )

    def to_canonical(self) -> dict[str, Any]:
        """Return the normal form without absolute paths: of those only the file's name stays."""
        data = self.to_dict()
        model, run = data["model"], data["run"]
        model["path"] = portable_path(model["path"])
        model["files"] = [portable_path(file) for file in model["files"]]
        holders = [run]
        if self.quantize is not None:
            holders.append(data["quantize"]["calibration"])
        if self.evaluate is not None:
            data["evaluate"]["labels"] = portable_path(data["evaluate"]["labels"])
            holders.append(data["evaluate"])
        for holder in holders:
            given = holder["inputs"]
            if isinstance(given, dict):
                holder["inputs"] = {name: portable_source(s) for name, s in given.items()}
            else:
                holder["inputs"] = portable_path(given)
        if self.libraries:
            data["libraries"] = [portable_library(entry) for entry in data["libraries"]]
        if is_platform_file(self.platform):
            data["platform"] = portable_path(self.platform)
        if self.detection is not None:
            data["detection"] = portable_detection(data["detection"])
        return data

    @property
    def sha256(self) -> str:
        """Digest of the canonical form: comments, order and the recipe's folder do not count."""
        text = json.dumps(self.to_canonical(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode("ascii")).hexdigest()


def mix_to_data(mix: tuple[DeviceSpec, ...]) -> list[dict[str, Any]]:
    return [{"device": device.name, "options": dict(device.options)} for device in mix]


def mix_from_data(data: Iterable[Mapping[str, Any]]) -> tuple[DeviceSpec, ...]:
    """Return the mix that ``mix_to_data`` wrote."""
    return tuple(DeviceSpec(d["device"], tuple(sorted(d["options"].items()))) for d in data)


def lock_path(recipe: Path) -> Path:
    """Return where a recipe's lock lies; see :mod:`firmwright.recipe.lock`."""
    return recipe.with_suffix(".lock")


def is_platform_file(platform: str) -> bool:
    """Tell the path of a user's own platform file from the name of a known platform."""
    return "/" in platform or platform.endswith((".yaml", ".yml"))
