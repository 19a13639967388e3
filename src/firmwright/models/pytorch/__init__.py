"""Imports exported PyTorch programs."""
