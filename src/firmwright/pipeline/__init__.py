"""What runs the stages: jobs, freshness, the lock, the command line. Only this room knows doit."""
