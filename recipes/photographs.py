"""Samples for pictures' networks: sixteen tiles of each photograph that scikit-learn brings."""

from __future__ import annotations

from importlib.resources import files

import numpy as np
from numpy.typing import NDArray
from PIL import Image


def building() -> NDArray[np.float32]:
    return tiles("china.jpg")


def flower() -> NDArray[np.float32]:
    return tiles("flower.jpg")


def tiles(name: str, side: int = 96) -> NDArray[np.float32]:
    """Cut a photograph into 4 x 4 tiles; return them resized, NCHW, from 0 to 1."""
    with (files("sklearn.datasets") / "images" / name).open("rb") as stream:
        picture = Image.open(stream).convert("RGB").resize((4 * side, 4 * side))
    rows = np.asarray(picture, "float32").reshape(4, side, 4, side, 3) / 255
    return np.ascontiguousarray(rows.transpose(0, 2, 4, 1, 3).reshape(16, 3, side, side))
