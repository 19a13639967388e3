"""api: ``get_model_sdk_version() -> str``."""


def get_model_sdk_version() -> str:
    return "2.1.0"
