"""Exported PyTorch programs."""
