"""Cut a QDQ module into regions, each on one device, each with the reason."""
