"""Data for a network's inputs: where a recipe says it is, and how it is read."""

from __future__ import annotations

from firmwright.data.sample_sources import DataFile, DataSource, Preprocess

__all__ = ["DataFile", "DataSource", "Preprocess"]
