"""Device ``soma_dory``: the digital accelerator of DIANA."""
