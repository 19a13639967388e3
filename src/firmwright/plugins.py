"""Finds the entry points that installed packages have registered."""

from __future__ import annotations

import importlib.metadata
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points, version
from traceback import extract_tb
from typing import Any

from firmwright.errors import UserError

TFLITE_OPERATORS = "firmwright.tflite_operators"
"""The group of modules that read TFLite files with a vendor's custom operators."""

read_version = cache(version)
"""Return the version of an installed package. A process reads the version once."""


@cache
def find_plugins(group: str) -> EntryPoints:
    plugins: EntryPoints = read_plugins().select(group=group)
    return plugins


@cache
def read_plugins() -> Any:
    """Return all entry points. The type of the result differs before Python 3.12.

    The search reads a file of every installed package.
    """
    return entry_points()


def list_tflite_vendors() -> list[EntryPoint]:
    return sorted(find_plugins(TFLITE_OPERATORS), key=lambda point: (point.name, point.value))


def load_plugin(point: EntryPoint) -> Any:
    """Import the object of an entry point.

    Raises UserError if the installation is incomplete. Also raises UserError, with the line, if the
    code of the module fails.
    """
    try:
        return point.load()
    except ModuleNotFoundError as error:
        raise describe_incomplete(point, error) from None
    except (ImportError, AttributeError) as error:
        *_, last = extract_tb(error.__traceback__)
        if last.filename == importlib.metadata.__file__:  # the name is not in the module
            raise describe_incomplete(point, error) from None
        raise UserError(
            f"{last.filename}:{last.lineno}: {error}; correct the module {point.module}, which "
            f"adds '{point.name}' to {point.group}"
        ) from None


def describe_incomplete(point: EntryPoint, problem: Exception) -> UserError:
    """Return the error about a package that pip lists, but whose module Python cannot import.

    The usual cause is a deleted folder of an editable installation.
    """
    package = point.name if point.dist is None else point.dist.name
    return UserError(
        f"the package {package} adds '{point.name}' to {point.group}, but its installation is "
        f"incomplete: {problem}; install it again, or remove it with `pip uninstall {package}`"
    )
