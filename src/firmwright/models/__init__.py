"""Importers: a model file becomes a Relax module in QDQ style, one module a format."""

from __future__ import annotations

from firmwright.models.formats import FORMATS, Format, format_of
from firmwright.models.interface import ModelInterface, Operator, Tensor

__all__ = ["FORMATS", "Format", "ModelInterface", "Operator", "Tensor", "format_of"]
