"""Lists the model formats, and determines the format of a file."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from firmwright.errors import UserError, did_you_mean

if TYPE_CHECKING:
    import numpy as np
    import tvm

    from firmwright.ir.tensors import ModelInterface, State

Shapes = Mapping[str, tuple[int, ...]]
Samples: TypeAlias = "Sequence[Mapping[str, np.ndarray[Any, Any]]]"
TensorValues: TypeAlias = "list[dict[str, np.ndarray[Any, Any]]]"
Imported: TypeAlias = "tuple[tvm.IRModule, ModelInterface]"


@dataclass(frozen=True)
class ReferenceOutputs:
    """The outputs of a reference runtime for each sample, and the runtime's name and version."""

    runtime: str
    outputs: list[list[np.ndarray[Any, Any]]]


class OpenShapesError(UserError):
    """Raised for inputs of dynamic shape.

    ``shapes`` maps inputs to shapes, in which names represent open lengths.
    """

    def __init__(self, name: str, shapes: Mapping[str, Sequence[int | str]]) -> None:
        self.shapes = shapes
        first = next(iter(shapes))
        lines = (f"  {tensor}: {list(shape)}" for tensor, shape in shapes.items())
        heading = f"{name}: dynamic input shapes; firmware needs fixed shapes:"
        hint = f"  state them in the recipe, e.g. `inputs: {{{first}: {{shape: [1, …]}}}}`"
        super().__init__("\n".join([heading, *lines, hint]))


class ReferenceModule(Protocol):
    """A module that evaluates a model with the reference runtime of the format."""

    def run_reference(
        self, data: bytes, inputs: Samples, states: Sequence[State] = ()
    ) -> ReferenceOutputs:
        """Evaluate each sample with the format's runtime.

        Raises UserError if the runtime rejects a sample. If ``states`` is not empty, the samples
        are the steps of one sequence.
        """


class Importer(ReferenceModule, Protocol):
    def import_model(self, data: bytes, name: str, shapes: Shapes) -> Imported:
        """Return the Relax module and the interface of a model.

        ``shapes`` maps dynamic inputs to fixed shapes. Raises UserError if the model is not
        supported.
        """


class Signatures(Protocol):
    """A module that selects one of several networks of a model file."""

    def select_signature(self, data: bytes, name: str, signature: str) -> bytes:
        """Return a model that contains only the network of ``signature``.

        Raises UserError if the model does not have the signature.
        """


class TensorReader(Protocol):
    """A module that evaluates a model with the reference runtime and returns all tensors."""

    def read_tensors(
        self, data: bytes, inputs: Samples, states: Sequence[State] = ()
    ) -> TensorValues:
        """Return a dictionary of all tensors and their values for each sample.

        Raises UserError if the runtime rejects the model.
        """


@dataclass(frozen=True)
class Format:
    """A model format.

    A build imports ``module`` only if a model has this format. ``reference`` names a module that
    runs the reference runtime without TVM. ``in_float64`` names a module that evaluates a model in
    float64. ``tensors`` names a module that returns all tensors of a model. ``signatures`` names a
    module that selects one of several networks of a file. ``packages`` lists the Python packages
    that read and evaluate models. One of the packages may be an ``extra``, which pip installs only
    on request. ``holds_code`` is true if a model file contains code that a reader runs.
    """

    name: str
    suffixes: tuple[str, ...]
    module: str
    packages: tuple[str, ...] = ()
    extra: str | None = None
    holds_code: bool = False
    reference: str = ""
    in_float64: str = ""
    tensors: str = ""
    signatures: str = ""

    def load_reference(self) -> ReferenceModule:
        """Import the module of the reference runtime. The default is the module of the format."""
        return (
            cast(ReferenceModule, importlib.import_module(self.reference))
            if self.reference
            else self.load()
        )

    def load_in_float64(self) -> ReferenceModule | None:
        """Import the module that evaluates a model in float64.

        Return None if the format has no such module.
        """
        if not self.in_float64:
            return None
        return cast(ReferenceModule, importlib.import_module(self.in_float64))

    def load_tensor_reader(self) -> TensorReader | None:
        """Import the module that returns all tensors of a model.

        Return None if the format has no such module.
        """
        if not self.tensors:
            return None
        return cast(TensorReader, importlib.import_module(self.tensors))

    def select_network(self, data: bytes, name: str, signature: str) -> bytes:
        """Return a model that contains only the network of one signature.

        Raises UserError if the format has no signatures, or if the signature is unknown.
        """
        if not self.signatures:
            raise UserError(
                f"the model is {self.name}; only TFLite models have signatures; "
                "remove `signature_name`"
            )
        module = cast(Signatures, importlib.import_module(self.signatures))
        return module.select_signature(data, name, signature)

    def load(self) -> Importer:
        """Import the module. Raises UserError if the package of the format is not installed."""
        try:
            return cast(Importer, importlib.import_module(self.module))
        except ModuleNotFoundError as error:
            if self.extra is None or error.name != self.extra:
                raise
            raise UserError(
                f"a model of the format '{self.name}' needs the package {self.extra}: "
                f"pip install 'firmwright[{self.extra}]'"
            ) from None


FORMATS = {
    f.name: f
    for f in (
        Format(
            "onnx",
            (".onnx",),
            "firmwright.models.onnx.importer",
            ("onnx", "onnxruntime"),
            reference="firmwright.models.onnx.onnxruntime_outputs",
            in_float64="firmwright.models.onnx.float64",
            tensors="firmwright.models.onnx.onnxruntime_outputs",
        ),
        Format(
            "tflite",
            (".tflite", ".lite"),
            "firmwright.models.tflite.importer",
            ("ai-edge-litert", "flatbuffers", "tflite"),
            reference="firmwright.models.tflite.litert_outputs",
            tensors="firmwright.models.tflite.litert_outputs",
            signatures="firmwright.models.tflite.signatures",
        ),
        Format(
            "pt2",
            (".pt2",),
            "firmwright.models.pytorch.importer",
            ("torch",),
            extra="torch",
            holds_code=True,
            tensors="firmwright.models.pytorch.tensor_values",
        ),
        Format("relax", (".relax",), "firmwright.models.relax.importer"),
    )
}

EXPORT_HINT = (
    "save it as a program, torch.export.save(torch.export.export(model, inputs), 'model.pt2')"
)
STABLEHLO_HINT = (
    "StableHLO is not supported: it needs the MLIR bindings of jaxlib, 600 MB; write the model as "
    "ONNX, TFLite or .pt2, or import it in Python and state `model: {python: 'module:function'}`"
)
CONVERT_HINT = (
    'convert it: python -c "import tensorflow as tf; '
    "open('{stem}.tflite', 'wb').write(tf.lite.TFLiteConverter.{source}.convert())\""
)
# TensorFlow's converter calls for a Keras model and for a SavedModel.
KERAS_SOURCE = "from_keras_model(tf.keras.models.load_model('{file}'))"
SAVED_SOURCE = "from_saved_model('{folder}')"
SAVED_HINT = f"a SavedModel is not supported; {CONVERT_HINT.replace('{source}', SAVED_SOURCE)}"
ARRAY_HINT = (
    "a C array is not supported; extract its model and write a recipe: firmwright init --from "
    "{file}"
)
SAVED_MODEL = "saved_model.pb"
"""The name of the file that marks a folder as a SavedModel."""
UNSUPPORTED_SUFFIXES = {
    ".pt": f"a .pt file contains weights or TorchScript, not an exported program; {EXPORT_HINT}",
    ".pth": f"a .pth file contains weights or TorchScript, not an exported program; {EXPORT_HINT}",
    ".mlir": STABLEHLO_HINT,
    ".stablehlo": STABLEHLO_HINT,
    ".h5": f"a Keras model is not supported; {CONVERT_HINT.replace('{source}', KERAS_SOURCE)}",
    ".keras": f"a Keras model is not supported; {CONVERT_HINT.replace('{source}', KERAS_SOURCE)}",
    **dict.fromkeys((".c", ".cc", ".cpp", ".h", ".hpp"), ARRAY_HINT),
    ".pb": "a TensorFlow graph is not supported; export the model as a SavedModel or TFLite file",
}
"""Maps the suffixes of unsupported formats to advice.

The placeholders ``{file}``, ``{folder}`` and ``{stem}`` are the path, the folder and the name of
the model.
"""

PLAIN_PATH = re.compile(r"[A-Za-z0-9_./-]+")
"""Paths that need no quotes in a shell or in Python.

The advice replaces other paths with ``model``.
"""


def describe_unsupported(suffix: str, file: str) -> str | None:
    """Return the advice for a model file with the suffix.

    Return None if the suffix is not listed.
    """
    path = PurePosixPath(file)
    is_saved = path.name == SAVED_MODEL
    advice = SAVED_HINT if is_saved else UNSUPPORTED_SUFFIXES.get(suffix)
    if advice is None:
        return None
    if not PLAIN_PATH.fullmatch(file):
        path = PurePosixPath("model", SAVED_MODEL) if is_saved else PurePosixPath(f"model{suffix}")
    stem = path.parent.name if is_saved else path.stem
    names = {"{file}": str(path), "{folder}": str(path.parent), "{stem}": stem or "model"}
    for name, value in names.items():
        advice = advice.replace(name, value)
    return advice


def describe_saved_model(folder: Path, name: str) -> str | None:
    """Return the advice for a ``folder`` that contains a SavedModel. Return None for other folders.

    ``name`` is the name of the folder in the advice.
    """
    if not os.path.isfile(folder / SAVED_MODEL):  # noqa: PTH113 (Path.is_file raises for a long name)
        return None
    return describe_unsupported(".pb", f"{name}/{SAVED_MODEL}")


def format_of(filename: str, stated: str | None) -> Format:
    """Return the format that the recipe states, or the format of the file name's suffix.

    Raises UserError if the format or the suffix is unknown.
    """
    if stated is not None:
        if stated not in FORMATS:
            raise UserError(f"model: unknown format '{stated}'{did_you_mean(stated, FORMATS)}")
        return FORMATS[stated]
    suffix = PurePosixPath(filename).suffix.lower()
    for candidate in FORMATS.values():
        if suffix in candidate.suffixes:
            return candidate
    known = ", ".join(s for f in FORMATS.values() for s in f.suffixes)
    raise UserError(
        f"{filename}: the suffix '{suffix}' is not the suffix of a model format (known: {known}); "
        "state it with `model: {path: …, format: onnx}`"
    )
