"""The stages of the pipeline, one a module: what each reads, what it writes, and what runs."""
