"""1.1, api: what the second cache keeps. No page lists more members than these."""

from enum import Enum


class L2CachingMode(Enum):
    NONE = "none"
    SINGLE_MODEL = "single_model"
