"""Shares results of stages between builds, by the digest of all inputs of a stage."""

from .cache import SharedCache, open_cache

__all__ = ["SharedCache", "open_cache"]
