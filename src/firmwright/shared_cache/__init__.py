"""Results of stages that builds share, by the digest of everything that decides about them."""

from .cache import SharedCache, open_cache

__all__ = ["SharedCache", "open_cache"]
