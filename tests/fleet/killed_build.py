"""Stands for a build that is killed, as it is where memory runs out."""

import os
import signal

os.kill(os.getpid(), signal.SIGKILL)
