"""Importers: a model file becomes a Relax module in QDQ style, one package a format."""

from __future__ import annotations

from firmwright.models.formats import FORMATS, Format, format_of

__all__ = ["FORMATS", "Format", "format_of"]
