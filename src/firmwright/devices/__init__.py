"""The built-in devices, one folder per device. Other packages load them by entry point."""
