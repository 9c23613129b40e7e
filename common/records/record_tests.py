#!/usr/bin/env python3
"""Runs every test of a build folder and records what came of it: on which system, at which commit, and when.

  python3 common/records/record_tests.py --out docs/results/cpu/test.txt
  python3 common/records/record_tests.py --out docs/results/h200x2/test.txt --of tests.xml --commit 472fdad --system "Ubuntu 24.04, x86_64"

The second records a run that is over, perhaps another machine's: tests.xml is what CTest wrote there. The exit code is 0 only if
nothing failed.
"""

import argparse
import contextlib
import io
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "common/cli"))
import summarize_tests  # noqa: E402  (the path to it comes first)


def printed(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()


def system_of(build):
    """What the tests of a build folder run on, as lines: system, compiler, libtorch, GPU."""
    cache = dict(re.findall(r"^(\w+):\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.MULTILINE))
    gpus = printed("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").splitlines() if shutil.which("nvidia-smi") else []
    return [f"{platform.freedesktop_os_release()['PRETTY_NAME']}, {platform.machine()}, {os.cpu_count()} processors",
            printed(cache["CMAKE_CXX_COMPILER"], "--version").splitlines()[0],
            f"libtorch {cache['LADDER_TORCH_VERSION']}",
            ", ".join(gpus) or "no GPU"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--of", type=pathlib.Path, metavar="XML", help="the results of a run that is over; nothing is run")
    parser.add_argument("--commit", default=os.environ.get("LADDER_COMMIT"), help="what was tested; asked of git if it is not given")
    parser.add_argument("--system", action="append", metavar="LINE", help="what it was tested on; asked of this machine and the build "
                        "folder if it is not given")
    arguments = parser.parse_args()

    results = arguments.of or (arguments.build / "tests.xml").resolve()
    commit = arguments.commit or printed("git", "describe", "--always", "--dirty", "--abbrev=12")
    if not arguments.of:
        subprocess.run(["ctest", "--test-dir", arguments.build, "--parallel", str(arguments.jobs), "--output-on-failure",
                        "--test-output-size-passed", "65536", "--output-junit", results])
    suite = ElementTree.parse(results).getroot()
    began = suite.get("timestamp").replace("T", " ")
    heading = [f"commit {commit}, {began} UTC" if time.timezone == 0 else f"commit {commit}, {began}",
               *(arguments.system or system_of(arguments.build))]
    summary = io.StringIO()
    with contextlib.redirect_stdout(summary):
        code = summarize_tests.main(results, suite.get("time"), most=1000, least_seconds=0)
    arguments.out.write_text("\n".join(heading) + "\n\n" + summary.getvalue())
    print(f"{summary.getvalue().splitlines()[-1]}: {arguments.out}")
    return code


if __name__ == "__main__":
    sys.exit(main())
