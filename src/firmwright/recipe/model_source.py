"""Defines the source of a recipe's model, which is the key ``model``."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class CustomOperatorSource(msgspec.Struct, frozen=True):
    """The definition of a custom operator: a C function and Python functions.

    ``reference`` computes the results, and ``shapes`` returns the shapes and types of the results.
    The two values are ``module:function``.
    """

    function: str
    reference: str
    shapes: str | None = None


class ModelSource(msgspec.Struct, frozen=True):
    """The source of the model: a ``path``, a ``url`` or a ``python`` function.

    The other two values are None. A URL has a ``sha256``. ``python`` is ``module:function``, and
    ``files`` are the files that the function reads. ``signature`` is the file with the supplier's
    signature, and ``key`` is the file with the supplier's key. A recipe states both keys, or
    neither. ``signature_name`` selects one network of a TFLite file.
    """

    path: str | None
    url: str | None
    sha256: str | None
    format: str
    """A key of :data:`firmwright.models.FORMATS`."""
    python: str | None = None
    files: tuple[str, ...] = ()
    signature: str | None = None
    key: str | None = None
    signature_name: str | None = None
    custom_operators: Mapping[str, CustomOperatorSource] = msgspec.field(default_factory=dict)
    """A mapping from names to the custom operators of a TFLite file."""
    state: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The inputs that are kept between runs, and the outputs that are their next values."""
