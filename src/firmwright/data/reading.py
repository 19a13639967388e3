"""Reads samples of a network's inputs from the sources that a recipe states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from firmwright.custom.code import load_custom_function
from firmwright.data.arrays import Array, check_array, load_npy, load_npz, load_raw
from firmwright.data.fetch import fetch_file
from firmwright.data.pictures import read_picture
from firmwright.data.sample_sources import (
    DataFile,
    DataFolders,
    DataSource,
    Preprocess,
    require_files,
)
from firmwright.data.samples import Column, Origin, digest
from firmwright.errors import UserError, did_you_mean
from firmwright.ir.tensors import Tensor


def read_columns(
    inputs: Sequence[Tensor],
    given: str | Mapping[str, DataSource],
    folders: DataFolders,
    count: int | None,
    least: int | None = None,
) -> dict[str, Column]:
    """Return the first ``count`` samples of every input, or all samples if ``count`` is None.

    ``least`` samples are enough if the sources have fewer than ``count``. ``given`` is one ``.npz``
    with an array for each input, one ``.npy`` for a network with one input, or a source for each
    input.

    Raises one UserError with all problems. Problems are inputs without a source, sources without an
    input, and files that cannot be read. Data of another shape or type, NaN, and too few samples
    are also problems.
    """
    if isinstance(given, str):
        if not given.endswith(".npz") and len(inputs) > 1:
            names = ", ".join(t.name for t in inputs)
            path = folders.folder / given
            raise UserError(f"{path}: one array for several inputs ({names}); use an .npz")
        given = {t.name: DataSource("arrays", (DataFile(given),)) for t in inputs}
    problems = find_unmatched_inputs(inputs, given)
    columns: dict[str, Column] = {}
    for tensor in inputs:
        if tensor.name in given:
            source = given[tensor.name]
            columns[tensor.name] = read_column(tensor, source, folders, count, least, problems)
    if not problems and count is None and len({len(c.arrays) for c in columns.values()}) > 1:
        counts = ", ".join(f"{len(c.arrays)} for '{name}'" for name, c in columns.items())
        problems.append(f"the inputs have different numbers of samples: {counts}")
    if problems:
        raise UserError("\n".join(problems))
    return columns


def find_unmatched_inputs(inputs: Sequence[Tensor], sources: Mapping[str, DataSource]) -> list[str]:
    names = [t.name for t in inputs]
    missing = [
        f"no data for the network's input '{n}'{did_you_mean(n, sources)}"
        for n in names
        if n not in sources
    ]
    unknown = [
        f"the network has no input '{n}'{did_you_mean(n, names)}"
        for n in sorted(sources)
        if n not in names
    ]
    return missing + unknown


def read_column(
    tensor: Tensor,
    source: DataSource,
    folders: DataFolders,
    count: int | None,
    least: int | None,
    problems: list[str],
) -> Column:
    """Return one input's data, and append the problems to ``problems``."""
    wanted = count if least is None else least
    column = Column([], [])
    before = len(problems)
    for read in make_readers(tensor, source, folders, problems):
        if count is not None and len(column.arrays) + len(problems) - before >= count:
            break
        try:
            values, origin = read()
            samples = check_array(values, tensor, origin.name)
        except UserError as error:
            problems.append(str(error))
            continue
        for i, array in enumerate(samples):
            name = origin.name if len(samples) == 1 else f"{origin.name}[{i}]"
            column.arrays.append(np.asarray(array))  # a sample of a scalar is also an array
            column.origins.append(
                Origin(Path(name).name, digest(array), origin.picture, source.preprocess)
            )
    held = len(column.arrays)
    if wanted is not None and held < wanted and len(problems) == before:
        problems.append(f"{describe(source)}: has {held} samples; the recipe needs {wanted}")
    return Column(column.arrays[:count], column.origins[:count])


Reader = Callable[[], tuple[Array, Origin]]


def make_readers(
    tensor: Tensor, source: DataSource, folders: DataFolders, problems: list[str]
) -> Iterator[Reader]:
    """Yield each file's reader, which returns an array (samples, *shape) and the file's origin."""
    if source.function is not None:
        name = source.function
        yield lambda: (call_function(name, folders.folder), Origin(name, ""))
        return
    for path, label in files_of(source, folders, problems):
        yield lambda path=path, label=label: (  # type: ignore[misc]
            read_file(path, label, tensor, source),
            Origin(label, "", path if source.kind == "pictures" else None),
        )


def files_of(
    source: DataSource, folders: DataFolders, problems: list[str]
) -> Iterator[tuple[Path, str]]:
    for file in source.files:
        try:
            if file.path is None:
                yield fetch_file(file, folders.cache), file.display_name
            else:
                yield from ((path, str(path)) for path in require_files(file, folders.folder))
        except UserError as error:
            problems.append(str(error))


def read_file(path: Path, label: str, tensor: Tensor, source: DataSource) -> Array:
    if source.kind == "pictures":
        result: Array = read_picture(path, source.preprocess or Preprocess(), tensor, label)
        return result
    if source.kind == "raw":
        return load_raw(path, tensor)
    if Path(label).suffix == ".npz":  # the name of a fetched file is not kept
        return load_npz(path, [tensor.name])[tensor.name]
    return load_npy(path)


def call_function(reference: str, folder: Path) -> Array:
    """Call ``module:function``.

    Raises UserError if the function fails or does not return an array.
    """
    with load_custom_function(reference, folder) as function:
        result = function()
    if not isinstance(result, np.ndarray):
        problem = f"returned {type(result).__name__}, not a numpy array"
        raise UserError(f"{reference}: {problem}; return an array, such as numpy.array(…)")
    return result


def describe(source: DataSource) -> str:
    if source.function is not None:
        return source.function
    return ", ".join(f.path or f.display_name for f in source.files)
