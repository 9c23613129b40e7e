"""Reading a trace as docs/trace.md describes it, apart from the page that plays it."""

import base64
import json
import math
import pathlib
import re
import struct
import subprocess

HALF_ABSENT, SINGLE_ABSENT = 0xFFFF, 0xFFFFFFFF


def run_program(program, *arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=300)


def written(program, folder, name, *arguments):
    """What `ladder trace` writes into a file of that name."""
    file = pathlib.Path(folder, name)
    result = run_program(program, "trace", *arguments, "-o", file)
    assert result.returncode == 0, result.stdout + result.stderr
    return file.read_text()


def trace(program, folder, *arguments):
    """The trace that `ladder trace` writes as data."""
    return json.loads(written(program, folder, "trace.json", *arguments))


def page(program, folder, *arguments):
    """The page that it writes."""
    return written(program, folder, "page.html", *arguments)


def in_page(text):
    """The trace that a page plays."""
    return json.loads(re.search(r'<script id="trace" type="application/json">(.*?)</script>', text, re.DOTALL)[1])


def profile(program, folder, *arguments):
    """Entry -> tensor -> (bytes read, bytes written), as `ladder profile` counts them."""
    file = f"{folder}/profile.json"
    result = run_program(program, "profile", *arguments, "--json", file)
    assert result.returncode == 0, result.stdout + result.stderr
    with open(file) as stream:
        rungs = json.load(stream)["phases"]
    counted = {}
    for rung in rungs:
        sums = counted.setdefault(rung["kernel"], {})
        for launch in rung["launches"]:
            for tensor, bytes_ in launch.get("global_memory", {}).items():
                read, written = sums.get(tensor, (0, 0))
                sums[tensor] = read + bytes_["bytes_read"], written + bytes_["bytes_written"]
    return counted


def cells(shown):
    """(row, column, value) of every value that a moment shows under one name."""
    first_row, first_column, _, columns = shown["at"]
    kind, absent, letter = ("f16", HALF_ABSENT, "e") if "f16" in shown else ("f32", SINGLE_ABSENT, "f")
    data = base64.b64decode(shown[kind])
    words = struct.unpack(f"<{len(data) // struct.calcsize(letter)}{'H' if kind == 'f16' else 'I'}", data)
    values = struct.unpack(f"<{len(words)}{letter}", data)
    for i, (word, value) in enumerate(zip(words, values)):
        if word != absent:
            yield first_row + i // columns, first_column + i % columns, value


def traffic_of(launch, moments):
    """Tensor -> (bytes read, bytes written) of some moments."""
    sums = {}
    for moment in moments:
        for memory, object_, write, _, bytes_, *_ in moment.get("access", []):
            if memory == 0:
                name = launch["tensors"][object_]["name"]
                read, written = sums.get(name, (0, 0))
                sums[name] = (read, written + bytes_) if write else (read + bytes_, written)
    return sums


def close(a, b, relative):
    return a == b or math.isclose(a, b, rel_tol=relative, abs_tol=relative)
