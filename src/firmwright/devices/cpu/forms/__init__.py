"""Contains the forms of the device ``c``, with their conditions and their packing."""
