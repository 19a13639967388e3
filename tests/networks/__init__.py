"""Networks that tests build, and the firmware that they become."""
