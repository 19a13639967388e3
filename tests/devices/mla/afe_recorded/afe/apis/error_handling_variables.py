"""api: without this call, error messages are shortened."""


def enable_verbose_error_messages() -> None:
    pass
