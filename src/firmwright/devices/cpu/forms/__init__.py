"""The forms of the device ``c``: their table, their conditions, how they pack a layer's numbers."""
