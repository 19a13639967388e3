"""The built-in devices, one folder per device. Other packages add devices with entry points."""
