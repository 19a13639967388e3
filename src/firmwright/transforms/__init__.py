"""Relax to Relax rewrites: each small, named, and listed in the registry."""

from __future__ import annotations

from firmwright.transforms.registry import canonicalize

__all__ = ["canonicalize"]
