"""Stores constants in fewer bytes; the C decodes an array into scratch before its layer runs."""
