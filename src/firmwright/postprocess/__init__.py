"""Boxes from a network's outputs: what the C needs, a reference in numpy, and drawing."""

from __future__ import annotations
