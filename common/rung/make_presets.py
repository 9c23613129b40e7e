"""CMakePresets.json, which has a preset for each phase of the list.

  python3 common/rung/make_presets.py            writes it
  python3 common/rung/make_presets.py --check    says whether it is what would be written; the exit code is 1 if not

CMake reads presets before anything of the project, so they cannot be made while configuring.
"""

import argparse
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Other builds of the same: what they are called in full, and what sets them apart.
VARIANTS = {
    "unchecked": ("FlashLadder, the CPU machine without its checks", {"LADDER_CHECKS": "OFF"}),
    "asan": ("FlashLadder under AddressSanitizer", {"LADDER_SANITIZER": "address"}),
    "tsan": ("FlashLadder under ThreadSanitizer", {"LADDER_SANITIZER": "thread", "LADDER_CHECKS": "OFF"}),
}
SANITIZERS = ("asan", "tsan")  # they run the phases' tests alone


def labels(root):
    return [folder.partition("_")[0] for folder in (root / "common/rung/phases.txt").read_text().split()]


def presets(root):
    phases = labels(root)
    phases_tests = [f"{phase}_tests" for phase in phases]
    workflow = lambda name, configure: {"name": name, "steps": [
        {"type": "configure", "name": configure}, {"type": "build", "name": name}, {"type": "test", "name": name}]}
    return {
        "version": 6,
        "cmakeMinimumRequired": {"major": 3, "minor": 25, "patch": 0},
        "configurePresets": [
            {"name": "ladder", "displayName": "FlashLadder", "generator": "Ninja", "binaryDir": "${sourceDir}/build"},
            *({"name": name, "displayName": title, "generator": "Ninja", "binaryDir": f"${{sourceDir}}/build-{name}",
               "cacheVariables": variables} for name, (title, variables) in VARIANTS.items())],
        "buildPresets": [
            {"name": "all", "configurePreset": "ladder"},
            {"name": "cuda-kernels", "configurePreset": "ladder", "targets": ["cuda_kernels"]},
            *({"name": phase, "configurePreset": "ladder", "targets": [f"{phase}_tests"]} for phase in phases),
            *({"name": name, "configurePreset": name, **({"targets": phases_tests} if name in SANITIZERS else {})} for name in VARIANTS)],
        "testPresets": [
            {"name": "all", "configurePreset": "ladder", "output": {"outputOnFailure": True}, "execution": {"noTestsAction": "error"}},
            *({"name": phase, "inherits": "all", "filter": {"include": {"label": f"^{phase}$"}}} for phase in phases),
            *({"name": name, "inherits": "all", "configurePreset": name,
               **({"filter": {"include": {"label": "^phase"}}} if name in SANITIZERS else {})} for name in VARIANTS)],
        "workflowPresets": [workflow("all", "ladder"), *(workflow(phase, "ladder") for phase in phases),
                            *(workflow(name, name) for name in VARIANTS)],
    }


def text(root):
    """A line for each preset."""
    parts = []
    for key, value in presets(root).items():
        if isinstance(value, list):
            lines = ",\n".join("    " + json.dumps(preset) for preset in value)
            parts.append(f"  {json.dumps(key)}: [\n{lines}\n  ]")
        else:
            parts.append(f"  {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the file is not what would be written")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="another tree than this one")
    arguments = parser.parse_args()
    file = arguments.root / "CMakePresets.json"
    wanted = text(arguments.root)
    if not arguments.check:
        file.write_text(wanted)
    elif file.read_text() != wanted:
        sys.exit("CMakePresets.json does not follow common/rung/phases.txt: run python3 common/rung/make_presets.py")


if __name__ == "__main__":
    main()
