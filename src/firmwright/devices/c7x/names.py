"""Defines names for several modules of this device."""

NAME = "c7x"
"""The name of the device in a target mix, and of its folder of templates."""

LIBRARIES_VARIABLE = "CGT7X_EXT_LIBS"
"""The environment variable that names archives for the loadable."""
