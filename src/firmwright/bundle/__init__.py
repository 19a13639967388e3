"""Manifest and archive: what leaves the build folder."""
