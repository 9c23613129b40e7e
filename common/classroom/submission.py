"""What a student handed in, read by somebody who does not trust it: regular files alone, of bounded size, in the folder itself."""

import errno
import os
import pathlib
import stat

MOST_BYTES = 1 << 20  # the largest solution has a fiftieth of it


class Unreadable(Exception):
    """Why a file is not judged, in a sentence."""


def _open(name, kind, folder=None):
    # O_NONBLOCK: a pipe that nobody writes to is opened all the same, and found to be one.
    return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | kind, dir_fd=folder)


def _content(descriptor):
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise Unreadable("it is not a file with text in it, but a folder, pipe or device")
    if found.st_size > MOST_BYTES:
        raise Unreadable(f"it has {found.st_size:,} bytes; a kernel has {MOST_BYTES:,} at most")
    with os.fdopen(os.dup(descriptor), "rb") as file:
        content = file.read(MOST_BYTES + 1)  # it may have grown
    if len(content) > MOST_BYTES:
        raise Unreadable(f"it has more than the {MOST_BYTES:,} bytes that a kernel has at most")
    return content


def text_of(workspace, exercise):
    """The text of the file for an exercise, or None if there is none. Throws Unreadable."""
    try:
        outer = _open(workspace, os.O_DIRECTORY)
        try:
            inner = _open(exercise.folder, os.O_DIRECTORY, outer)
        finally:
            os.close(outer)
        try:
            file = _open(pathlib.Path(exercise.file).name, 0, inner)
        finally:
            os.close(inner)
        try:
            content = _content(file)
        finally:
            os.close(file)
    except FileNotFoundError:
        return None
    except OSError as error:
        link = os.path.islink(workspace) or os.path.islink(os.path.join(workspace, exercise.folder)) or error.errno == errno.ELOOP
        raise Unreadable("it is a link, or lies behind one; hand in the file itself" if link
                         else f"it cannot be read: {error.strerror}") from error
    try:
        return content.decode("utf-8-sig")  # editors on Windows begin files with a mark
    except UnicodeDecodeError as error:
        raise Unreadable(f"it is not text in UTF-8: byte {error.start} is {content[error.start]:#04x}") from error
