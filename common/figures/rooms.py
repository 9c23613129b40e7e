"""What the phases bring: <phase>/rung/figures.py, with FIGURES as every page's script has it, for each phase of the list."""

import functools
import importlib.util

from constants import ROOT


def phases():
    """The folders of all phases, in order."""
    return (ROOT / "common/rung/phases.txt").read_text().split()


@functools.cache
def script(phase):
    """The module of a phase's figures; None if it has none."""
    path = ROOT / phase / "rung/figures.py"
    if not path.exists():
        return None
    spec = importlib.util.spec_from_file_location(f"{phase}_figures", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
