"""Runs a Python program with the PyTorch that libflash_ladder.so was built with: that of `python3`, or Debian's.

  python3 with_torch.py VERSION PROGRAM [ARGUMENT…]

Looked for when the test runs, since it may have been installed after the build was configured. Exits with 77, "not run",
where neither has a PyTorch of that version.
"""

import os
import subprocess
import sys


def torch_version(python):
    try:
        found = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
    except OSError:
        return "no such program"
    return found.stdout.strip() or "no PyTorch"


def main(version, program, *arguments):
    found = {}
    for python in ("python3", "/usr/bin/python3"):
        found[python] = torch_version(python)
        if found[python].startswith(version):
            sys.stdout.flush()
            os.execvp(python, [python, program, *arguments])
    print(f"NOT RUN: {os.path.basename(program)}: no PyTorch {version}, with which libflash_ladder.so was built: "
          + ", ".join(f"{python} has {what}" for python, what in found.items()))
    sys.exit(77)


if __name__ == "__main__":
    main(*sys.argv[1:])
