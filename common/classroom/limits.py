"""Programs under limits: what a learner's file gets the compiler to do ends, and leaves nothing behind.

  python3 limits.py      says what this machine cannot enforce of a runner's sandbox; ./ladder doctor calls it
"""

import ctypes
import dataclasses
import os
import signal
import subprocess
import sys
import tempfile
import threading

MEMORY = 3 << 30        # bytes of address space of each process
WRITTEN = 256 << 20     # bytes of each file that it writes
PATIENCE = 15           # times the limit may pass on a machine that has others to serve
SAID = 64 << 20         # bytes of its output that are kept


@dataclasses.dataclass
class Ended:
    """How a program ended. Its output is any bytes, made readable."""
    code: int      # negative: by a signal
    stdout: str
    stderr: str
    late: bool = False     # it took all of its time of the processor
    starved: bool = False  # the machine ended it, or gave it no processor for too long


class Starved(Exception):
    """The machine did not let a program end that somebody's points depend on."""


class Interrupted(Exception):
    """Everything was ended, and nothing more is started."""


_running = set()
_interrupted = threading.Event()


def _end(process):
    """With all that it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def end_everything():
    """What other threads are running, and what they would go on with."""
    _interrupted.set()
    for process in list(_running):
        _end(process)


def _kept(file):
    file.seek(0)
    return file.read(SAID).decode(errors="replace")


def run(command, seconds, memory=MEMORY, written=WRITTEN, stdin=b""):
    """Runs it in a session of its own, with a folder for temporary files of its own. It is late when it has taken so many seconds of a
    processor, and starved when many times as many have passed without that. When it has ended, everything that it has started is ended
    too. If this process is killed, so is the program; what that had started ends at its own limits. `memory`: None is no limit.
    `stdin`: bytes that it may read."""
    caps = [f"--fsize={written}", f"--cpu={seconds}:{seconds + 1}", "--core=0", *([f"--as={memory}"] if memory else [])]
    with tempfile.TemporaryDirectory(prefix="ladder-") as folder, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, \
            tempfile.TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "prlimit", *caps, *map(str, command)],
                                   stdin=given, stdout=out, stderr=err, start_new_session=True,
                                   env={**os.environ, "TMPDIR": folder, "LC_ALL": "C.UTF-8"})
        _running.add(process)
        starved = False
        try:
            if _interrupted.is_set():
                raise Interrupted
            process.wait(timeout=PATIENCE * seconds)
        except subprocess.TimeoutExpired:
            starved = True
        finally:  # of an interrupt, too
            _end(process)
            process.wait()
            _running.discard(process)
        errors = _kept(err)
        late = process.returncode == -signal.SIGXCPU or "CPU time limit exceeded" in errors
        starved = not late and (starved or process.returncode == -signal.SIGKILL or "Killed signal terminated" in errors)
        return Ended(process.returncode, _kept(out), errors, late, starved)


class _Filter(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint32)]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.POINTER(_Filter))]


def _try_to_be_confined():
    """["what cannot be enforced", …]; afterwards this process is."""
    NO_NEW_PRIVILEGES, SECCOMP, MODE_FILTER, ALLOW = 38, 22, 2, 0x7fff0000
    APART = 0x20000000 | 0x10000000 | 0x00020000 | 0x40000000 | 0x08000000 | 0x04000000  # as judge/warden.cpp has it
    libc, missing = ctypes.CDLL(None), []
    if libc.unshare(APART) != 0:
        missing.append("namespaces: a process that a kernel managed to start could see those of its user, and the network")
    allow_all = _Program(1, ctypes.pointer(_Filter(0x06, 0, 0, ALLOW)))
    if libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0 or libc.prctl(SECCOMP, MODE_FILTER, ctypes.byref(allow_all), 0, 0) != 0:
        missing.append("seccomp: a kernel that got past the compiler's checks could ask the system for files and processes")
    return missing


def not_enforced():
    """What a runner's sandbox lacks on this machine, in sentences; see judge/warden.h and runner/sandbox.h."""
    said = subprocess.run([sys.executable, __file__], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=True)
    return said.stdout.splitlines()


if __name__ == "__main__":
    for sentence in _try_to_be_confined():
        print(sentence)
