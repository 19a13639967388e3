"""Bundles as files: written, read back without trust, and described."""
