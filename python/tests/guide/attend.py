"""Runs a command at a terminal, as a person does: waits for what it prints, then types or stops it.

    attend PRINTED ACTION COMMAND…

PRINTED is a regular expression. ACTION is the text that is typed, or `SIGTERM`. Exits as the command does.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import sys
import termios
import threading

PATIENCE = 30


def main() -> None:
    expected, action, *command = sys.argv[1:]
    process, terminal = pty.fork()
    if process == 0:
        fcntl.ioctl(sys.stdout, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        os.execvp(command[0], command)
    limit = threading.Timer(PATIENCE, os.kill, (process, signal.SIGKILL))
    limit.start()
    printed, acted = "", False
    while chunk := read(terminal):
        sys.stdout.write(chunk)
        sys.stdout.flush()
        printed += chunk
        if not acted and re.search(expected, printed):
            acted = True
            if action == "SIGTERM":
                os.kill(process, signal.SIGTERM)
            else:
                os.write(terminal, action.encode())
    limit.cancel()
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if not acted:
        sys.exit(f"{' '.join(command)} ended with {status} before it printed {expected}")
    sys.exit(status)


def read(terminal: int) -> str:
    """Returns the next piece of the output, nothing at its end."""
    try:
        return os.read(terminal, 65536).decode(errors="replace")
    except OSError:
        return ""


if __name__ == "__main__":
    main()
