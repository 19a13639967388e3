"""api: element types. The members are the types in published examples."""

from enum import Enum


class ScalarType(Enum):
    float32 = "float32"
    int8 = "int8"
    bfloat16 = "bfloat16"
    int32 = "int32"
