"""Reads ONNX models whose weights are in separate files.

The separate files are also inputs of the model stage, so the build first needs the names of these
files. ``external_locations`` reads only the names from the fields of the model file. This function
needs neither ONNX's packages nor the weights. ``embed_external_data`` copies the data into the
model, so that later stages read a single file.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from firmwright.errors import UserError
from firmwright.wire_format import NotProtobufError, Span, find_parts

if TYPE_CHECKING:
    import onnx

GRAPH, INITIALIZER, EXTERNAL_DATA, KEY, VALUE = 7, 5, 13, 1, 2
"""Field numbers of ModelProto, GraphProto, TensorProto, StringStringEntryProto in onnx.proto."""

LONGEST_LOCATION = 4096
LARGEST_MODEL = 2**31 - 1
"""The maximum number of bytes in a protobuf message."""


def external_locations(path: Path) -> tuple[str, ...]:
    """Return the sorted names of the files with a model's constants, as written in the model.

    The result is empty if the file is unreadable or is not an ONNX model. The results are cached
    per process.
    """
    try:
        status = path.stat()
        state = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        return _find_locations(path, *state)
    except (OSError, NotProtobufError, UnicodeDecodeError):  # the importer reports the error
        return ()


@cache
def _find_locations(path: Path, size: int, *_identity: int) -> tuple[str, ...]:
    with path.open("rb") as stream:
        return tuple(sorted(set(read_locations(stream, size))))


def read_locations(stream: BinaryIO, size: int) -> Iterator[str]:
    for graph in find_parts(stream, (0, size), GRAPH):
        for tensor in find_parts(stream, graph, INITIALIZER):
            for entry in find_parts(stream, tensor, EXTERNAL_DATA):
                key = [read_text(stream, span) for span in find_parts(stream, entry, KEY)]
                if key == ["location"]:
                    yield from (
                        read_text(stream, span) for span in find_parts(stream, entry, VALUE)
                    )


def read_text(stream: BinaryIO, span: Span) -> str:
    start, end = span
    if end - start > LONGEST_LOCATION:
        raise NotProtobufError
    stream.seek(start)
    return stream.read(end - start).decode()


def external_files(path: Path) -> list[Path]:
    """Return the existing external files of a model."""
    paths = (path.parent / location for location in external_locations(path))
    return [file for file in paths if file.is_file()]


def embed_external_data(data: bytes, path: Path, shown_as: str) -> bytes:
    """Embed the data of external files in the model.

    Raises UserError if an external file is missing, is too short, or is outside the model's folder.
    Raises UserError if the model exceeds 2 GiB.
    """
    if not external_locations(path):
        return data
    import onnx

    model = onnx.load_model_from_string(data)
    total = len(data)
    for tensor in model.graph.initializer:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        content = read_tensor_data(tensor, path.parent, f"{shown_as}: '{tensor.name}'")
        total += len(content)
        if total > LARGEST_MODEL:
            raise UserError(
                f"{shown_as}: the model with its external data is larger than 2 GiB; export a "
                "smaller model, for example with quantized weights"
            )
        tensor.raw_data = content
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]
    return bytes(model.SerializeToString(deterministic=True))


def read_tensor_data(tensor: onnx.TensorProto, folder: Path, what: str) -> bytes:
    stated = {entry.key: entry.value for entry in tensor.external_data}
    location = stated.get("location", "")
    file = folder / location
    inside = "\0" not in location and file.resolve().is_relative_to(folder.resolve())
    if not location or Path(location).is_absolute() or not inside:
        raise UserError(
            f"{what}: its data is expected in '{location}', outside the model's folder: "
            "move the file into the folder of the model or below, and correct its location"
        )
    if file.exists() and not file.is_file():
        raise UserError(
            f"{what}: its data is expected in '{location}', which is not a file; download the "
            "file, or export the model again"
        )
    try:
        offset, length = int(stated.get("offset", 0)), int(stated.get("length", -1))
        size = file.stat().st_size
        end = size if length < 0 else offset + length
        if offset < 0 or end > size:
            raise UserError(
                f"{what}: its data is expected in bytes {offset} to {end} of '{location}', "
                f"which has {size}: download both files, or export the model again"
            )
        with file.open("rb") as stream:
            stream.seek(offset)
            return bytes(stream.read(end - offset))
    except ValueError:
        raise UserError(
            f"{what}: offset and length of its external data are not numbers; "
            "export the model again"
        ) from None
    except OSError as error:
        raise UserError(
            f"{what}: cannot read its data in '{location}': {error.strerror}; put the file next "
            "to the model"
        ) from None
