"""Defines a checked recipe with all defaults and one spelling per value."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from firmwright.documents.chain import Layers
from firmwright.documents.document import Document
from firmwright.documents.yaml_text import Pointer
from firmwright.errors import Diagnostic, DiagnosticError, UserError
from firmwright.recipe.model_source import ModelSource
from firmwright.recipe.postprocess import Classes, Detection
from firmwright.recipe.quantize_keys import (
    CalibrationSamples,
    EvaluateOptions,
    Inputs,
    QuantizeOptions,
)
from firmwright.recipe.releases import Release
from firmwright.recipe.spelling import normalize_data
from firmwright.recipe.user_files import FileReference, find_references, make_portable
from firmwright.targets import DeviceSpec

KEYS_NOT_IN_NETWORK_DIGEST = frozenset(
    {
        "allow_fallback",
        "budget",
        "clock",
        "compare",
        "counter",
        "description",
        "evaluate",
        "export",
        "release",
        "require_offload",
        "run",
        "tune",
    }
)
"""The keys that evaluate, run or pack the network, but are not part of the network."""


class InputOptions(msgspec.Struct, frozen=True):
    """The options of an input that the model does not fix.

    ``shape`` is the number of elements along each axis. ``integers`` states that the floats of the
    input are whole numbers from the first to the second number. ``value`` is a number or a list
    that makes the input constant. ``c_name`` is the name in the generated C code.
    """

    shape: tuple[int, ...] | None = None
    integers: tuple[int, int] | None = None
    value: Any = None
    c_name: str | msgspec.UnsetType = msgspec.UNSET


class OutputOptions(msgspec.Struct, frozen=True):
    """The options of an output. ``c_name`` is the name in the generated C code."""

    c_name: str


class Tolerance(msgspec.Struct, frozen=True):
    """The allowed difference from the reference, which is the sum of four parts.

    ``absolute`` is in units of the output, or in steps of the last digit for integers. For outputs
    in floating point, ``relative`` is a fraction of the reference's value, and ``range`` is a
    fraction of the range of the values. ``steps`` are steps of the last quantized tensor.
    """

    absolute: float
    relative: float
    range: float = 0
    steps: float = 0

    def __str__(self) -> str:
        parts = {name: value for name, value in msgspec.structs.asdict(self).items() if value}
        return ", ".join(f"{name} {value:g}" for name, value in parts.items()) or "none"


class BatchRequest(msgspec.Struct, frozen=True):
    """The batch size: the largest up to ``size`` that fits, or exactly ``size`` if required."""

    size: int
    require: bool = False


class TransformOptions(msgspec.Struct, frozen=True):
    """The names of enabled and disabled rewrites, and custom rewrites as ``module:function``."""

    switched_on: tuple[str, ...] = msgspec.field(name="with", default=())
    switched_off: tuple[str, ...] = msgspec.field(name="without", default=())
    extra: tuple[str, ...] = ()


class RunOptions(msgspec.Struct, frozen=True):
    """The run that verifies the firmware.

    ``inputs`` is one file, a mapping from input names to sources, or None for random data.
    ``emulator`` is None for a custom platform, whose file names the default emulator first.
    """

    inputs: Inputs | None
    samples: int
    seed: int
    emulator: str | None
    tolerance: Tolerance
    board: str | None = None
    """The file that describes the connection to a board, which replaces the emulator."""


class DemoOptions(msgspec.Struct, frozen=True):
    """The options of the demo application: the measurement, the comparison, and an endless mode.

    ``profile`` is ``none``, ``global`` (the network), ``individual`` (also each layer) or
    ``no_dma`` (like ``individual``, without the time in which a device moves data).
    """

    profile: str
    compare: bool
    indefinite: bool


class ExportOptions(msgspec.Struct, frozen=True):
    """The build systems of the network's packages, and the packages' version and web page."""

    to: tuple[str, ...]
    version: str = "0.1.0"
    url: str | None = None


class SlotOptions(msgspec.Struct, frozen=True):
    """A network that is a separate image in the ``size`` bytes of flash after ``address``.

    ``workspace`` is the size in bytes of the working memory that the firmware provides. None means
    the size that the network needs.
    """

    address: int
    size: int
    version: str = "0.1.0"
    workspace: int | None = None


class TuneOptions(msgspec.Struct, frozen=True):
    """The search for the fastest variants.

    ``trials`` is the maximum number of trials, or None for all variants.
    """

    trials: int | None = None


class CompressOptions(msgspec.Struct, frozen=True):
    """The layers whose constants are compressed, and a limit of bytes for all constants."""

    flash: int | None = None
    layers: tuple[str, ...] = ("*",)


class Library(msgspec.Struct, frozen=True):
    """The user's C code: paths of ``sources`` or of an ``archive``, and of ``includes``."""

    name: str
    sources: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()
    archive: str | None = None


class Budget(msgspec.Struct, frozen=True):
    """The limits: bytes of ``flash``, ``ram`` and ``stack``, and the time of one inference.

    ``latency`` is in milliseconds. ``energy`` is in microjoules.
    """

    flash: int | None = None
    ram: int | None = None
    stack: int | None = None
    cycles: int | None = None
    instructions: int | None = None
    latency: float | None = None
    energy: float | None = None


@dataclass(frozen=True)
class Recipe:
    """A recipe with all defaults and one spelling per value.

    ``path`` is the recipe's file as the user typed it, and other paths are as in the file.
    ``toolchain`` is None for a custom platform, whose file names the default toolchain first.
    """

    path: Path
    name: str
    model: ModelSource
    inputs: Mapping[str, InputOptions]
    platform: str
    target: tuple[DeviceSpec, ...]
    rounding: str
    """The rounding of real results to integers: ``tflite`` or ``onnx``."""
    toolchain: str | None
    c_prefix: str
    cflags: tuple[str, ...]
    batch: BatchRequest | None
    run: RunOptions
    compile_for_device: bool = True
    """False replaces the platform with the platform's host."""
    fuse_layers: bool = True
    placement: str = "order"
    """The choice of devices: ``order`` for the order of the target, or ``cost``."""
    allow_fallback: bool = True
    require_offload: float | None = None
    """The percentage of multiply-accumulates that the devices before the last device must run."""
    budget: Budget | None = None
    clock: int | None = None
    """The clock frequency of the processor in Hz if it differs from the platform's clock."""
    counter: int | None = None
    """The counter for receivers whose policy rejects bundles with a lower counter."""
    release: Release | None = None
    classes: Classes | None = None
    """The names of a classifier's classes. A detector has separate classes."""
    detection: Detection | None = None
    calibration: CalibrationSamples | None = None
    """The samples for devices that quantize the layers that they accept."""
    quantize: QuantizeOptions | None = None
    evaluate: EvaluateOptions | None = None
    compare: tuple[DeviceSpec, ...] = ()
    devices: Mapping[str, str] = field(default_factory=dict)
    """A mapping from names to custom devices, which are ``module:function``."""
    transforms: TransformOptions | None = None
    demo: DemoOptions | None = None
    export: ExportOptions | None = None
    arena: str = "static"
    """The owner of the network's working memory: ``static`` or ``caller``."""
    memory: Mapping[str, str] = field(default_factory=dict)
    """The memories of all ``weights``, of the ``arena``, and of named layers."""
    hooks: bool = False
    """Whether the network calls functions of the program around each layer."""
    selftest: int = 0
    """The number of golden samples in the firmware."""
    slot: SlotOptions | None = None
    """The location of the network if the network is not part of the firmware."""
    extensions: tuple[str, ...] = ()
    """Custom strategies as ``module:function``."""
    files: tuple[str, ...] = ()
    """The files that the recipe's Python code reads, in addition to files of other keys."""
    libraries: tuple[Library, ...] = ()
    tune: TuneOptions | None = None
    compress: CompressOptions | None = None
    description: str | None = None
    outputs: Mapping[str, OutputOptions] = field(default_factory=dict)
    dimensions: Mapping[str, int] = field(default_factory=dict)
    """The lengths of the model's named dimensions."""
    data: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """The complete data of the files, in the form of the schema."""
    layers: Layers = field(default=Layers(Path()), compare=False, repr=False)
    """The files and values that the user named."""
    chain: Mapping[Path, str] = field(default_factory=dict, compare=False, repr=False)
    """The SHA-256 of all files of the recipe, including its bases, in the order of merging."""

    @property
    def source_files(self) -> list[Path]:
        return [self.path, *self.bases]

    @property
    def bases(self) -> list[Path]:
        return [file for file in self.chain if file != self.path]

    @cached_property
    def document(self) -> Document:
        """The recipe as in its files, without defaults, and the position of each value."""
        return self.layers.chain.document

    def make_diagnostic(self, pointer: Pointer, message: str) -> Diagnostic:
        """Return ``message`` at the position of a value in the file that contains the value."""
        return self.document.make_diagnostic(pointer, message)

    def states(self, pointer: Pointer) -> bool:
        """Return whether a file or the command line states a value."""
        return pointer in self.document.positions

    def replace_data(self, data: Mapping[str, Any]) -> Recipe:
        return replace(read_recipe(self.path, data), layers=self.layers, chain=self.chain)

    def resolve(self, path: str) -> Path:
        """Return a path of the recipe, relative to its folder or absolute, for opening."""
        return self.path.parent / path

    def list_files(self, *keys: str) -> list[Path]:
        """Return the user's files that the recipe names under ``keys``, or anywhere without keys.

        ``evaluate.inputs`` is an example of a nested key. A function adds the files of the key
        ``files``.
        """
        prefixes = [tuple(key.split(".")) for key in keys] or [()]
        named = [
            reference
            for reference in self.references
            if any(reference.pointer[: len(prefix)] == prefix for prefix in prefixes)
        ]
        if any(reference.format.is_function for reference in named):
            named += [each for each in self.references if each.pointer[0] == "files"]
        listed = (path for each in named for path in each.list_files(self.path.parent))
        return list(dict.fromkeys(listed))

    @property
    def functions(self) -> list[str]:
        return [each.value for each in self.references if each.format.is_function]

    @cached_property
    def references(self) -> list[FileReference]:
        return find_references(self.data)

    @cached_property
    def portable(self) -> dict[str, Any]:
        """The complete data, in which file names replace absolute paths."""
        portable: dict[str, Any] = make_portable(self.data)
        return portable

    @cached_property
    def canonical(self) -> dict[str, Any]:
        """The recipe as plain data, in which file names replace absolute paths.

        Keys without a value in the recipe or its schema are omitted, so a new key does not change
        the digest of old recipes.
        """
        normal = normalize_data(self.portable)
        recipe = convert_recipe(self.path, normal)
        plain = msgspec.to_builtins(recipe, enc_hook=str)
        plain["model"] = {key: plain["model"][key] for key in normal["model"]}
        return {key: plain[key] for key in normal}

    @property
    def sha256(self) -> str:
        """The digest of the canonical form, which does not depend on comments, order and folder."""
        return digest_plain(self.canonical)

    @property
    def network_sha256(self) -> str:
        """The digest of the canonical form without :data:`KEYS_NOT_IN_NETWORK_DIGEST`."""
        kept = {k: v for k, v in self.canonical.items() if k not in KEYS_NOT_IN_NETWORK_DIGEST}
        return digest_plain(kept)


def digest_plain(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def read_recipe(path: Path, data: Mapping[str, Any]) -> Recipe:
    """Return the recipe of complete, valid data in the form of the schema."""
    return replace(convert_recipe(path, normalize_data(data)), data=data)


def convert_recipe(path: Path, normal: Mapping[str, Any]) -> Recipe:
    recipe = msgspec.convert({**normal, "path": path}, Recipe, dec_hook=lambda kind, v: kind(v))
    return replace(recipe, layers=Layers(path))


def lock_path(recipe: Path) -> Path:
    return recipe.with_suffix(".lock")


def precision_path(recipe: Path) -> Path:
    return recipe.with_suffix(".precision")


def tuned_path(recipe: Path) -> Path:
    return recipe.with_suffix(".tuned")


@contextmanager
def error_at_key(recipe: Recipe, pointer: Pointer) -> Iterator[None]:
    """Convert a UserError of the block to a DiagnosticError at a recipe's key."""
    try:
        yield
    except UserError as error:
        raise DiagnosticError([recipe.make_diagnostic(pointer, str(error))]) from None
