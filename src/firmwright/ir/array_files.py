"""Reads and writes the arrays between stages, as ``.npz`` files."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import ZipFile, ZipInfo

import ml_dtypes
import numpy as np
import numpy.typing as npt


def write_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write named arrays as an uncompressed ``.npz``. Equal arrays produce equal bytes.

    ``numpy.savez`` writes the sizes after the data, in a form that depends on the Python version.
    """
    with ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, np.asanyarray(array), allow_pickle=False)
            archive.writestr(ZipInfo(f"{name}.npy"), content.getvalue())


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Read the arrays of an ``.npz`` file by name.

    numpy stores bfloat16, a type of another package, as raw bytes. This function converts the bytes
    back to bfloat16.
    """
    with np.load(path, allow_pickle=False) as stored:
        return {n: a.view(ml_dtypes.bfloat16) if a.dtype == "V2" else a for n, a in stored.items()}
