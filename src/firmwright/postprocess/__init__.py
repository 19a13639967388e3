"""Computes boxes from a network's outputs: facts for the C, a reference in numpy, and drawing."""

from __future__ import annotations
