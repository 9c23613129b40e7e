"""Finds libflash_ladder.so and loads it into PyTorch, which makes torch.ops.flash_ladder of it."""

import os
import sys
from pathlib import Path

import torch

_NAME = "libflash_ladder.so"


def _candidates() -> list[Path]:
    """Where the library may be: with the package once that is installed, else in the build folder of the repository, else
    with another package of this name that is installed (this one is the repository's own source then)."""
    here = Path(__file__).resolve().parent
    root = here.parents[2]
    if not (root / "common/rung/phases.txt").exists():
        return [here / _NAME]
    build = Path(os.environ.get("LADDER_BUILD_DIR") or root / "build")
    return [build / _NAME, *(Path(folder or ".").resolve() / "flash_ladder" / _NAME for folder in sys.path)]


def load() -> str:
    """Loads the library; returns its path. Raises ImportError where there is none, or none that fits this PyTorch."""
    places = _candidates()
    found = next((place for place in places if place.exists()), None)
    if found is None:
        raise ImportError(f"flash_ladder: there is no {places[0]}. In the repository, build it: `./ladder test`, or `cmake "
                          "--build build --target flash_ladder`; elsewhere, install it: `pip install .` in the repository. "
                          "LADDER_BUILD_DIR names another build folder.")
    try:
        torch.ops.load_library(str(found))
    except OSError as error:
        raise ImportError(f"flash_ladder: PyTorch {torch.__version__} of {sys.executable} cannot load {found}, which was built "
                          f"with another one: build it anew for this one, or use the Python that it was built with. "
                          f"({error})") from error
    return str(found)
