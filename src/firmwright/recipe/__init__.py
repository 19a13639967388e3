"""Reads, checks and completes recipes, which users write in YAML.

The tests of packages with devices import ``parse_target`` from here.
"""

from __future__ import annotations

from firmwright.recipe.target import parse_target as parse_target
