"""Stores constants in fewer bytes. C code decodes an array before its layer runs."""
