"""ONNX models that keep their weights in files beside them.

The files are inputs of the model stage like the model itself, so their names are needed before
anything is built. ``external_locations`` reads just them, without ONNX's packages and without
the weights, by walking over the fields of the file; ``embed_external_data`` puts the data into
the model, which the later stages then have in one piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from firmwright.errors import UserError
from firmwright.wire_format import NotProtobufError, Place, find_parts

if TYPE_CHECKING:
    import onnx

GRAPH, INITIALIZER, EXTERNAL_DATA, KEY, VALUE = 7, 5, 13, 1, 2
"""Field numbers of ModelProto, GraphProto, TensorProto, StringStringEntryProto in onnx.proto."""

LONGEST_LOCATION = 4096
LARGEST_MODEL = 2**31 - 1
"""Bytes; protobuf's own limit."""


def external_locations(path: Path) -> tuple[str, ...]:
    """Return the files that a model's constants lie in, as it states them, sorted.

    Nothing for a file that is no ONNX model, or cannot be read. A process reads a file once.
    """
    try:
        status = path.stat()
        state = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        return _find_locations(path, *state)
    except (OSError, NotProtobufError, UnicodeDecodeError):  # the importer will say so
        return ()


@cache
def _find_locations(path: Path, size: int, *_identity: int) -> tuple[str, ...]:
    with path.open("rb") as stream:
        return tuple(sorted(set(read_locations(stream, size))))


def read_locations(stream: BinaryIO, size: int) -> Iterator[str]:
    for graph in find_parts(stream, (0, size), GRAPH):
        for tensor in find_parts(stream, graph, INITIALIZER):
            for entry in find_parts(stream, tensor, EXTERNAL_DATA):
                key = [read_text(stream, place) for place in find_parts(stream, entry, KEY)]
                if key == ["location"]:
                    yield from (
                        read_text(stream, place) for place in find_parts(stream, entry, VALUE)
                    )


def read_text(stream: BinaryIO, place: Place) -> str:
    start, end = place
    if end - start > LONGEST_LOCATION:
        raise NotProtobufError
    stream.seek(start)
    return stream.read(end - start).decode()


def external_files(path: Path) -> list[Path]:
    """Return the files beside a model that belong to it, as far as they are there."""
    found = (path.parent / location for location in external_locations(path))
    return [file for file in found if file.is_file()]


def embed_external_data(data: bytes, path: Path, shown_as: str) -> bytes:
    """Return the model with the data of its external files in it.

    Raises UserError for a file that is missing, too short, or outside the model's folder.
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
            raise UserError(f"{shown_as}: the model with its external data is larger than 2 GiB")
        tensor.raw_data = content
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]
    return bytes(model.SerializeToString(deterministic=True))


def read_tensor_data(tensor: onnx.TensorProto, folder: Path, what: str) -> bytes:
    """Read one tensor's bytes from its file in the folder."""
    stated = {entry.key: entry.value for entry in tensor.external_data}
    location = stated.get("location", "")
    file = folder / location
    inside = "\0" not in location and file.resolve().is_relative_to(folder.resolve())
    if not location or Path(location).is_absolute() or not inside:
        raise UserError(
            f"{what}: its data is said to be in '{location}', outside the model's folder: "
            "external data is read only from files in the folder of the model or below"
        )
    if file.exists() and not file.is_file():
        raise UserError(f"{what}: its data is said to be in '{location}', which is no file")
    try:
        offset, length = int(stated.get("offset", 0)), int(stated.get("length", -1))
        size = file.stat().st_size
        end = size if length < 0 else offset + length
        if offset < 0 or end > size:
            raise UserError(
                f"{what}: its data is said to be bytes {offset} to {end} of '{location}', "
                f"which has {size}: download or export it again"
            )
        with file.open("rb") as stream:
            stream.seek(offset)
            return bytes(stream.read(end - offset))
    except ValueError:
        raise UserError(f"{what}: offset and length of its external data are no numbers") from None
    except OSError as error:
        raise UserError(
            f"{what}: cannot read its data in '{location}': {error.strerror}; the file belongs "
            "beside the model"
        ) from None
