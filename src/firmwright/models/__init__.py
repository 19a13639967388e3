"""Imports model files. The package of each format makes a Relax module in QDQ style."""

from __future__ import annotations

from firmwright.models.formats import FORMATS, Format, format_of

__all__ = ["FORMATS", "Format", "format_of"]
