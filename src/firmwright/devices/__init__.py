"""Contains the built-in devices, one folder per device.

Other packages add devices through entry points.
"""
