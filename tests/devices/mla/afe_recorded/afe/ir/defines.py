"""api: choices of the quantization."""

from enum import Enum


class RequantizationMode(Enum):
    sima = "sima"
    tflite = "tflite"


class BiasCorrectionType(Enum):
    NONE = "none"
    REGULAR = "regular"
    ITERATIVE = "iterative"
