#!/usr/bin/env python3
"""Tests the machine, the phases and the reference on 64-bit Arm, from another Linux machine: compiled by a cross compiler, run by QEMU.

  python3 run.py [--part K/N] [--build DIR] [--jobs J]

Debian's arm64 packages of what ./ladder needs are unpacked into a folder of the build, through apt's own sources; nothing is
installed. QEMU takes ten times as long as a processor, so there are parts: N parts run everything. With more parts than long programs, which phases
are, parts share the cases of each. The exit code is 0 only if every program of the part ran and passed.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "common/cli"))
import summarize_tests  # noqa: E402  (the path to it comes first)

# On the machine that compiles: what is called, and the Debian package that has it.
NEEDED = {"aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu", "qemu-aarch64-static": "qemu-user-static", "apt-get": "apt",
          "dpkg-deb": "dpkg", "cmake": "cmake", "ninja": "ninja-build"}

LIBRARIES = "usr/lib/aarch64-linux-gnu"

# Besides the phases: the machine, what kernels share, and what results are held against. The last takes as long as a phase.
PROGRAMS = r"(simt_\w+|attention_\w+)\.cpu"
LONG_PROGRAMS = r"(reference|error_bound)\.cpu"

# A part's share of a long program is cut once more, so that two cores have something to do. Not asked of the machine: parts of different
# days must fit together.
AT_A_TIME = 2

# Pages of an Apple laptop's and of a server's Linux. What depends on them is in one program.
PAGES = {"simt_machine.cpu": (16384, 65536)}


class Failure(Exception):
    """What went wrong, and what to do about it."""


@dataclasses.dataclass
class Unit:
    """One run of a test program: the whole, or some of its cases."""
    test: str
    shard: int = 0
    shards: int = 1
    page: int = 0

    def name(self):
        share = f" {self.shard + 1}/{self.shards}" if self.shards > 1 else ""
        return self.test.removesuffix(".cpu") + share + (f", pages of {self.page // 1024} KiB" if self.page else "")

    def environment(self):
        environment = {**os.environ, "GTEST_TOTAL_SHARDS": str(self.shards), "GTEST_SHARD_INDEX": str(self.shard),
                       "OMP_NUM_THREADS": "1"}  # libtorch's threads would wait for each other in loops, which QEMU makes slow
        return environment | ({"QEMU_PAGESIZE": str(self.page)} if self.page else {})


def run(command, log, what, **options):
    """Runs a command whose output goes to a log, of which the end is shown if it fails."""
    with open(log, "a") as file:
        code = subprocess.run([str(word) for word in command], stdout=file, stderr=subprocess.STDOUT, **options).returncode
    if code != 0:
        end = "\n".join(log.read_text(errors="replace").splitlines()[-25:])
        raise Failure(f"{what} failed; {log} ends:\n{end}")


def check_tools():
    missing = [package for program, package in NEEDED.items() if not shutil.which(program)]
    if missing:
        raise Failure(f"programs are missing on this machine: sudo apt-get install {' '.join(missing)}")


def packages():
    """The libraries among what ./ladder would install; programs are those of this machine."""
    found = re.findall(r'^    "([\w.+-]+)\|(?:file |libtorch)', (ROOT / "ladder").read_text(), re.MULTILINE)
    if "libtorch-dev" not in found:
        raise Failure("./ladder has no list of packages any more in the form that run.py reads")
    return found


def make_root(folder, log, jobs):
    """Unpacks the packages, and what they depend on, where they are not yet."""
    wanted = packages()
    made, apt, root = folder / "made", folder / "apt", folder / "root"
    if made.exists() and made.read_text() == " ".join(wanted):
        return root
    shutil.rmtree(folder, ignore_errors=True)
    for place in ("lists/partial", "archives/partial"):
        (apt / place).mkdir(parents=True)
    (apt / "status").touch()  # nothing is installed yet: everything that is depended on is fetched
    options = {"APT::Architecture": "arm64", "APT::Architectures": "arm64", "Dir::State": apt, "Dir::State::lists": apt / "lists",
               "Dir::State::status": apt / "status", "Dir::Cache": apt, "Debug::NoLocking": 1, "APT::Sandbox::User": "root",
               "Acquire::Languages": "none"}
    apt_get = ["apt-get", *(f"-o{name}={value}" for name, value in options.items())]
    run([*apt_get, "update"], log, "apt-get update for arm64")
    run([*apt_get, "install", "--download-only", "--yes", "--no-install-recommends", *wanted], log, "fetching arm64 packages")

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(lambda package: run(["dpkg-deb", "-x", package, root], log, f"unpacking {package.name}"),
                      sorted((apt / "archives").glob("*.deb"))))
    # What the packages' scripts would have done: one BLAS and one LAPACK are everybody's, and the first of these folders that has it.
    for provider in ("openblas-openmp", "blas", "lapack"):
        for library in (root / LIBRARIES / provider).glob("lib*.so.[03]"):
            if not (root / LIBRARIES / library.name).exists():
                (root / LIBRARIES / library.name).symlink_to(f"{provider}/{library.name}")
    # The linker would follow absolute links to this machine's own files.
    for link in (path for path in root.rglob("*") if path.is_symlink()):
        target = os.readlink(link)
        if target.startswith("/") and os.path.lexists(f"{root}{target}"):
            link.unlink()
            link.symlink_to(os.path.relpath(f"{root}{target}", link.parent))
    shutil.rmtree(apt)
    made.write_text(" ".join(wanted))
    return root


def configure(build, root, log):
    os.environ["LADDER_ARM64_ROOT"] = str(root)
    run(["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", f"-DCMAKE_TOOLCHAIN_FILE={HERE / 'toolchain.cmake'}", "-DLADDER_CUDA=OFF"],
        log, "configuring")


def units_of(tests, part):
    """What the K-th of N parts runs, of {test: its labels}."""
    k, n = part[0] - 1, part[1]
    phases = [test for test, labels in tests.items() if any(re.fullmatch(r"phase\d+", label) for label in labels)]
    long = phases + [test for test in tests if re.fullmatch(LONG_PROGRAMS, test)]
    others = [test for test in tests if re.fullmatch(PROGRAMS, test)]
    if not phases or len(long) == len(phases) or not others:
        raise Failure("CTest lists no tests of phases, of the reference or of the machine")
    units = []
    for number, test in enumerate(long):
        parts = list(range(number % n, n, len(long)))  # those that share this one
        if k in parts:
            first, shards = parts.index(k) * AT_A_TIME, len(parts) * AT_A_TIME
            units += [Unit(test, shard, shards) for shard in range(first, first + AT_A_TIME)]
    for test in others[k::n]:
        units += [Unit(test), *(Unit(test, page=page) for page in PAGES.get(test, ()))]
    return units


def listed_tests(build):
    listed = json.loads(subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1", "-L", "^cpu$"], check=True,
                                       capture_output=True, text=True).stdout)
    labels = {}
    for test in listed["tests"]:
        labels[test["name"]] = [value for p in test.get("properties", []) if p["name"] == "LABELS" for value in p["value"]]
    return labels


def run_unit(build, unit, number):
    """(what became of it, how many checks held, seconds, what it printed)"""
    report = build / f"arm64-{number}.xml"
    report.unlink(missing_ok=True)
    started = time.monotonic()
    said = subprocess.run(["ctest", "--test-dir", build, "-R", f"^{re.escape(unit.test)}$", "--output-on-failure", "--no-tests=error",
                           "--test-output-size-passed", "65536", "--output-junit", report],
                          env=unit.environment(), capture_output=True, text=True, errors="replace")
    seconds = time.monotonic() - started
    if not report.exists():
        return "failed", 0, seconds, said.stdout + said.stderr
    (case,) = ElementTree.parse(report).getroot().iter("testcase")
    became = {"run": "passed", "fail": "failed"}.get(case.get("status"), "not run")
    return became, summarize_tests.checks_in(case) if became == "passed" else 0, seconds, said.stdout


def part(text):
    """K/N as a pair."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise argparse.ArgumentTypeError(f'"{text}" is not K/N with 1 <= K <= N, such as 2/12')
    return int(match[1]), int(match[2])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", type=part, default=(1, 1), metavar="K/N", help="only the K-th of N parts; all without it")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/arm64", metavar="DIR", help="where to build (build/arm64)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="J", help="compilers and tests at a time")
    arguments = parser.parse_args()
    build, started = arguments.build.resolve(), time.monotonic()
    build.mkdir(parents=True, exist_ok=True)
    log = build / "arm64.log"
    log.unlink(missing_ok=True)

    def done(what):
        nonlocal started
        print(f"  {time.monotonic() - started:5.0f} s  {what}", flush=True)
        started = time.monotonic()

    check_tools()
    root = make_root(build / "packages", log, arguments.jobs)
    done("packages for arm64, unpacked")
    configure(build, root, log)
    units = units_of(listed_tests(build), arguments.part)
    targets = sorted({unit.test.replace(".cpu", "_test") for unit in units})
    run(["cmake", "--build", build, "--parallel", arguments.jobs, "--target", *targets], log, "building")
    done(f"{len(targets)} test programs, built")

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for unit, (became, checks, seconds, said) in zip(units, pool.map(lambda job: run_unit(build, job[1], job[0]), enumerate(units))):
            print(f"  {seconds:5.0f} s  {unit.name():<40} {became}" + (f", {checks} checks" if became == "passed" else ""), flush=True)
            if became != "passed":
                failed += 1
                print(said, flush=True)
    done(f"{len(units)} runs under QEMU: {len(units) - failed} passed, {failed} did not")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(f"run.py: {failure}")
