"""Defines the built-in custom operators."""

from __future__ import annotations

from firmwright.models.tflite.custom_operators import CustomOperator

BUILT_IN: dict[str, CustomOperator] = {}
