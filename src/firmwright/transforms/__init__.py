"""Rewrites Relax modules with small named transforms that the registry lists."""

from __future__ import annotations

from firmwright.transforms.registry import canonicalize

__all__ = ["canonicalize"]
