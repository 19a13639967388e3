"""Defines names for several modules of this device."""

NAME = "c7x"
"""The name of the device in a target mix, and of its folder of templates."""

LIBRARIES_VARIABLE = "CGT7X_EXT_LIBS"
"""The environment variable that names archives for the loadable."""

OFF, EXACT, NEAREST = "0", "exact", "nearest"
MMALIB_MODES = (OFF, EXACT, NEAREST)
"""The values of the option ``mmalib``: TI's library is used never, if its results are equal, or for
all layers that it supports."""

MMALIB_FORM = "c7x_mmalib_conv2d"
"""The form of layers that TI's library computes."""

MMALIB_HEADER = "fw_mmalib.h"
"""The header that declares the library's function. The form's kernels include this header."""
