"""Never imported: the name is taken."""
