"""Shares results of stages between builds, by the digest of everything that affects them."""

from .cache import SharedCache, open_cache

__all__ = ["SharedCache", "open_cache"]
