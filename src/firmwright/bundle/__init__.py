"""Writes bundles, reads them without trusting their content, and describes them."""
