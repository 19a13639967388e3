"""Contains the platforms with an Ethos-U.

The entry point `firmwright.platforms` refers to this package.
"""
