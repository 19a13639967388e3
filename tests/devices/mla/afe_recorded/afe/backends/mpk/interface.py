"""1.1, api: uses of the second cache. No page lists more members."""

from enum import Enum


class L2CachingMode(Enum):
    NONE = "none"
    SINGLE_MODEL = "single_model"
