"""Models the firmware's console for device models: the input bytes, and the bytes written."""

from __future__ import annotations

from firmwright.progress import BYTES, report

# If a firmware polls this often in succession without remaining input, it waits forever. A correct
# firmware polls far less, because a write of a byte resets the number.
_IDLE_POLLS = 1000


class Console:
    """The remaining input, which the firmware reads byte by byte, and the output so far."""

    def __init__(self, data: bytes) -> None:
        self._input = data
        self._position = 0
        self._idle_polls = 0
        self.output = bytearray()

    @property
    def has_input(self) -> bool:
        return self._position < len(self._input)

    @property
    def is_exhausted(self) -> bool:
        """Whether the firmware waits for input that will not arrive."""
        return self._idle_polls > _IDLE_POLLS

    def poll(self) -> bool:
        """Return whether a byte can be read, and count the poll if no input is left."""
        self._idle_polls = 0 if self.has_input else self._idle_polls + 1
        return self.has_input

    def read(self) -> int:
        """Return the next byte, or 0 if no input is left, like the register of an empty
        receiver."""
        if not self.has_input:
            return 0
        self._position += 1
        report(BYTES, self._position, len(self._input))
        return self._input[self._position - 1]

    def write(self, byte: int) -> None:
        self._idle_polls = 0
        self.output.append(byte & 0xFF)
