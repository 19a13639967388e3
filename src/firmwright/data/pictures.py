"""Reads pictures as inputs. Pillow resizes with integers, so results are equal on all machines.

Pillow's ``bilinear`` and ``bicubic`` filters use every pixel of the original to shrink a picture.
OpenCV's filters with these names use only the nearest four or sixteen pixels. Therefore the results
differ slightly from the results of OpenCV if a picture becomes much smaller.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from firmwright.data.arrays import quantize_array
from firmwright.data.sample_sources import Preprocess
from firmwright.errors import UserError, explain_failure, first_line
from firmwright.ir.tensors import Tensor

if TYPE_CHECKING:
    from PIL import Image

MAX_PIXELS = 100_000_000
"""The maximum number of pixels. Larger pictures are rejected before decoding, because a small
file can state a size of gigabytes.
"""
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""The accepted formats. For some other formats, Pillow starts external programs."""
WIDE_MODES = ("I", "F")
"""The first letters of Pillow modes whose pixels Pillow would clamp to 0..255 instead of
scaling.
"""

Part = tuple[float, float, float, float]


def open_picture(data: bytes, label: str) -> Image.Image:
    """Decode a picture to 8-bit RGB, and rotate it according to its orientation tag."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as picture:
            if picture.width * picture.height > MAX_PIXELS:
                size = f"{picture.width} x {picture.height}"
                raise UserError(
                    f"{label}: {size} pixels; the maximum is {MAX_PIXELS:,} in total: scale "
                    "the picture down"
                )
            if picture.mode[0] in WIDE_MODES:
                raise UserError(
                    f"{label}: pixels of more than 8 bits ({picture.mode}), which would be "
                    "clipped at 255; save it with 8 bits, or state its values as `arrays`"
                )
            return ImageOps.exif_transpose(picture).convert("RGB")
    except UserError:
        raise
    except UnidentifiedImageError:
        raise UserError(
            f"{label}: not a supported picture; expected one of {', '.join(FORMATS)}"
        ) from None
    except Exception as error:  # decoders raise OSError, SyntaxError, ValueError, struct.error …
        problem = f"{label}: cannot decode the picture: {first_line(error)}"
        raise UserError(f"{problem}; save it again") from None


def compute_resized_size(size: tuple[int, int], preprocess: Preprocess) -> tuple[int, int]:
    """Return the (width, height) of a resized picture. ``size`` is the original size."""
    wanted = preprocess.resize
    if wanted is None:
        return size
    if isinstance(wanted, tuple):
        return wanted
    width, height = size
    shorter = min(size)
    return max(1, round(width * wanted / shorter)), max(1, round(height * wanted / shorter))


def center_crop_box(size: tuple[int, int], crop: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return left, top, right, bottom of the middle part. An odd remainder is right and below."""
    left, top = (size[0] - crop[0]) // 2, (size[1] - crop[1]) // 2
    return left, top, left + crop[0], top + crop[1]


def visible_part(size: tuple[int, int], preprocess: Preprocess) -> Part:
    """Return the part that the network sees: left, top, right, bottom as fractions (0..1)."""
    if preprocess.crop is None:
        return 0.0, 0.0, 1.0, 1.0
    width, height = compute_resized_size(size, preprocess)
    left, top, right, bottom = center_crop_box((width, height), preprocess.crop)
    return left / width, top / height, right / width, bottom / height


def read_picture(path: Path, preprocess: Preprocess, tensor: Tensor, label: str) -> Any:
    """Return a picture as (1, *the input's shape) in the input's type.

    Raises UserError if the picture does not fit.
    """
    from PIL import Image

    with explain_failure(f"{label}: cannot be read"):
        data = path.read_bytes()
    picture = open_picture(data, label)
    size = compute_resized_size(picture.size, preprocess)
    if size != picture.size:
        picture = picture.resize(size, Image.Resampling[preprocess.filter.upper()])
    if preprocess.crop is not None:
        if preprocess.crop[0] > size[0] or preprocess.crop[1] > size[1]:
            wanted = " x ".join(map(str, preprocess.crop))
            problem = f"{size[0]} x {size[1]} pixels, too small to crop {wanted}"
            raise UserError(f"{label}: {problem}; add `preprocess.resize`, or crop less")
        picture = picture.crop(center_crop_box(size, preprocess.crop))
    pixels = np.asarray(picture.convert("L") if preprocess.colour == "grey" else picture)
    pixels = pixels.reshape(*pixels.shape[:2], -1)
    if preprocess.colour == "BGR":
        pixels = pixels[:, :, ::-1]
    values = normalize_pixels(pixels, preprocess, label)
    if preprocess.layout == "NCHW":
        values = values.transpose(2, 0, 1)
    shape = (1, *values.shape)
    if shape != tensor.shape:
        raise UserError(
            f"{label}: is {preprocess.layout} {list(shape)} after preprocessing; the input "
            f"'{tensor.name}' is {list(tensor.shape)}; correct resize, crop, colour or layout in "
            "`preprocess`"
        )
    return np.ascontiguousarray(to_input_type(values, tensor, label))[None, None]


def normalize_pixels(
    pixels: npt.NDArray[np.uint8], preprocess: Preprocess, label: str
) -> npt.NDArray[np.float32]:
    """Return (pixel - mean) / std of a picture (height, width, channel) in single precision."""
    channels = pixels.shape[2]
    for name, numbers in (("mean", preprocess.mean), ("std", preprocess.std)):
        if len(numbers) not in (1, channels):
            raise UserError(
                f"{label}: `preprocess.{name}` has {len(numbers)} numbers; state one number, or "
                f"one for each of the {channels} channels"
            )
    mean, std = np.array(preprocess.mean, np.float32), np.array(preprocess.std, np.float32)
    result: npt.NDArray[np.float32] = (pixels.astype(np.float32) - mean) / std
    return result


def to_input_type(values: npt.NDArray[np.float32], tensor: Tensor, label: str) -> Any:
    """Convert values to the input's type: quantize with its scale, round half to even, saturate.

    Values must already be integers within the type's range if the input is an integer without a
    scale.
    """
    kind = np.dtype(tensor.dtype)
    if kind.kind == "f":
        return values.astype(kind)
    limits = np.iinfo(kind)
    if tensor.scale is not None:
        return quantize_array(values, tensor)
    if (values != np.rint(values)).any() or values.min() < limits.min or values.max() > limits.max:
        raise UserError(
            f"{label}: values from {values.min():g} to {values.max():g}; the input "
            f"'{tensor.name}' needs whole numbers from {limits.min} to {limits.max} "
            "(`preprocess.mean` and `std` move and scale pixels of 0 to 255)"
        )
    return values.astype(kind)
