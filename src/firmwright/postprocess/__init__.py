"""What is made of a network's outputs: C for the firmware, numpy to judge it, pictures to see."""

from __future__ import annotations
