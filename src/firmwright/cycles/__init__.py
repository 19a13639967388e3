"""Clock cycles by layer: modelled by the devices, counted by the emulator, and compared."""
