"""Defines the forms of the device ``c``: their table, their conditions, and their packing."""
