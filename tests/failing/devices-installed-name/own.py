"""Never imported, because the name is in use."""
