#!/usr/bin/env python3
"""Runs every test of a build folder and records what came of it: on which system, at which commit, and when.

  python3 common/records/record_tests.py --out docs/results/cpu/test.txt

The exit code is 0 only if nothing failed.
"""

import argparse
import contextlib
import datetime
import io
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import time

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
    arguments = parser.parse_args()

    commit = os.environ.get("LADDER_COMMIT") or printed("git", "describe", "--always", "--dirty", "--abbrev=12")
    heading = [f"commit {commit}, {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC", *system_of(arguments.build)]
    results = (arguments.build / "tests.xml").resolve()
    started = time.monotonic()
    subprocess.run(["ctest", "--test-dir", arguments.build, "--parallel", str(arguments.jobs), "--output-on-failure",
                    "--test-output-size-passed", "65536", "--output-junit", results])
    summary = io.StringIO()
    with contextlib.redirect_stdout(summary):
        code = summarize_tests.main(results, round(time.monotonic() - started), most=1000, least_seconds=0)
    arguments.out.write_text("\n".join(heading) + "\n\n" + summary.getvalue())
    print(f"\n{summary.getvalue().splitlines()[-1]}: {arguments.out}")
    return code


if __name__ == "__main__":
    sys.exit(main())
