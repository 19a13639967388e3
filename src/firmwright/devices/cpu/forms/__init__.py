"""Defines the forms of the device ``c``: their tables, their conditions, and their packing."""
