"""api: without this call errors are shortened."""


def enable_verbose_error_messages() -> None:
    pass
