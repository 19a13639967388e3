"""Reads data for a network's inputs from the sources that a recipe states."""

from __future__ import annotations

from firmwright.data.sample_sources import DataFile, DataSource, Preprocess

__all__ = ["DataFile", "DataSource", "Preprocess"]
