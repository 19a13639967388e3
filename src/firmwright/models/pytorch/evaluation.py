"""Evaluates tensors with torch, in one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from firmwright.errors import UserError, first_line


def to_torch(array: npt.NDArray[Any]) -> torch.Tensor:
    """Copy an array to a tensor, because torch needs writable memory.

    bfloat16 is converted via uint16.
    """
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view("uint16").copy()).view(torch.bfloat16)
    return torch.from_numpy(np.array(array))


def to_numpy(tensor: torch.Tensor) -> npt.NDArray[Any]:
    if tensor.dtype == torch.bfloat16:
        return np.array(tensor.contiguous().view(torch.uint16).numpy().view("bfloat16"))
    return np.array(tensor.numpy())


@contextmanager
def use_one_thread() -> Iterator[None]:
    """Compute in one thread within the block, because the order of sums depends on their number.

    Raises UserError if torch rejects the model.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    except (RuntimeError, TypeError, ValueError, AssertionError, LookupError) as error:
        raise UserError(
            f"torch, the reference, cannot run the model: {first_line(error)}; run the exported "
            "program in torch to find the cause"
        ) from error
    finally:
        torch.set_num_threads(threads)
