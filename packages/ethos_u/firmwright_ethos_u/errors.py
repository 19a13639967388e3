"""Defines the errors of Vela and of the simulator."""

from firmwright.device import UserError


class VelaError(UserError):
    """Raised if Vela rejects a network or crashes."""


class StreamError(UserError):
    """Raised if the simulator rejects a command stream.

    The message contains the offset of the command.
    """
