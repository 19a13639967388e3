"""Shares results of stages between builds. The key is the digest of all inputs of a stage."""

from .cache import SharedCache, open_cache

__all__ = ["SharedCache", "open_cache"]
