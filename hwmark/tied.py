"""Runs a command that ends when its parent does: `python tied.py PARENT-PID COMMAND...`

Even a parent that is killed leaves nobody behind then: the kernel sends SIGKILL. It is a program of
its own, because a process can ask for that only for itself. It imports nothing that takes time.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Ask the kernel, then become the command."""
    parent, command = int(arguments[0]), arguments[1:]
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    # The parent may have ended before the kernel was asked.
    if os.getppid() != parent:
        raise SystemExit(1)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
