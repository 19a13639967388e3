"""Defines the errors of the compiler driver and of the simulator."""

from firmwright.device import UserError


class VelaError(UserError):
    """Report that Vela rejects a network or crashes."""


class StreamError(UserError):
    """Report a command stream that the simulator rejects, with the offset of the command."""
