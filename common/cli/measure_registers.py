"""Asks ptxas how many registers each kernel takes, for the occupancy that `./ladder profile` reports.

  python3 common/cli/measure_registers.py [ARCHITECTURE…]     writes rung/registers.json of each phase

Compiles every kernel with the nvcc on PATH (or in /usr/local/cuda/bin) for the given compute capabilities, such as 90; without
any, for all that the device profiles have and this nvcc knows. Kernels for Hopper alone are compiled for 90a. No GPU is needed; it takes a few minutes for each on one core, and takes all there are.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PHASES = [ROOT / folder for folder in (ROOT / "common/rung/phases.txt").read_text().split()]
# Of the devices in common/simt/device/device_profile.cpp.
CAPABILITIES = ["61", "70", "75", "80", "86", "89", "90", "100", "120"]


def sources(phase):
    """The .cuh files of a phase, in its folders too, but for the exercises: these are the kernels again."""
    return [path for path in sorted(phase.rglob("*.cuh")) if path.relative_to(phase).parts[0] != "exercises"]


def kernel_files(phase):
    return [path for path in sources(phase) if "__global__" in path.read_text()]


def hopper_kernels(phase):
    """The files whose instructions only sm_90a has: HOPPER_KERNELS in the phase's CMakeLists.txt."""
    found = re.search(r"HOPPER_KERNELS((?:\s+[a-z0-9_/]+)+)", (phase / "CMakeLists.txt").read_text())
    return [phase / f"{name}.cuh" for name in found[1].split()] if found else []


def fingerprint(phase):
    """FNV-1a over the code of the phase's .cuh files and of common/attention's, in the order of their paths: tells whether the
    figures are those of today's kernels. Comments and empty lines do not count. The program works it out in the same way
    (common/rung/registers.cpp)."""
    value = 0xCBF29CE484222325
    files = [*sources(phase), *ROOT.glob("common/attention/*.cuh")]
    for path in sorted(files, key=lambda p: p.relative_to(ROOT).as_posix()):
        for line in path.read_text().splitlines():
            code = line.split("//")[0].rstrip()
            for byte in f"{code}\n".encode() if code else b"":
                value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def instance_of(mangled):
    """"_ZN6ladder4cuda…" -> "a_kernel<f16, 64>"."""
    text = subprocess.run(["c++filt", mangled], capture_output=True, text=True, check=True).stdout.strip()
    text = re.sub(r"^void |(\w+::)+", "", text).replace("__half", "f16").replace("__nv_bfloat16", "bf16").replace("__nv_fp8_", "")
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:
            return text[:i]
    return text


def registers_of(messages):
    """What `ptxas -v` says: {(instance, capability): (registers, bytes spilled to memory)}."""
    found, current, spilled = {}, None, 0
    for line in messages.splitlines():
        if match := re.search(r"Compiling entry function '(\w+)' for 'sm_(\d+)a?'", line):
            current, spilled = (instance_of(match[1]), match[2]), 0
        elif match := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            spilled = int(match[1])
        elif (match := re.search(r"Used (\d+) registers", line)) and current:
            found[current] = (int(match[1]), spilled)
            current = None
    return found


def compiled_for(nvcc, path, capability):
    """What ptxas says of the kernels of one file, for one compute capability, such as 90 or 90a."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / (path.stem + ".cu")
        source.write_text(f'#include "{path.relative_to(ROOT)}"\n')
        # The options of the build: common/cmake/LadderCuda.cmake.
        result = subprocess.run([nvcc, "-std=c++20", "-O2", f"-arch=sm_{capability}", "-Xptxas", "-v", "-cubin", f"-I{ROOT}",
                                 "-o", os.devnull, source], capture_output=True, text=True)
    if result.returncode:
        sys.exit(result.stderr)
    print(f"{path.relative_to(ROOT)} for sm_{capability}", flush=True)
    return registers_of(result.stderr)


def measure(phase, nvcc, version, capabilities):
    kernels, measured = {}, fingerprint(phase)
    hopper = hopper_kernels(phase)
    wanted = [(path, capability) for path in kernel_files(phase) if path not in hopper for capability in capabilities]
    if "90" in capabilities:
        wanted += [(path, "90a") for path in kernel_files(phase) if path in hopper]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
        for found in workers.map(lambda one: compiled_for(nvcc, *one), wanted):
            for (instance, found_for), (registers, spilled) in found.items():
                entry = {"registers": registers, **({"spilled_bytes": spilled} if spilled else {})}
                kernels.setdefault(instance, {})[found_for] = entry

    if fingerprint(phase) != measured:
        sys.exit("measure_registers.py: a kernel changed in the meantime; measure again")
    lines = [f'    {json.dumps(name)}: {json.dumps(kernels[name])}' for name in sorted(kernels)]
    output = phase / "rung/registers.json"
    output.write_text('{\n  "compiler": ' + json.dumps(f"ptxas {version}") + ',\n  "fingerprint": ' + json.dumps(measured) +
                      ',\n  "kernels": {\n' + ",\n".join(lines) + "\n  }\n}\n")
    print(f"{len(kernels)} kernels written to {output.relative_to(ROOT)}")


def main(wanted):
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if not nvcc:
        sys.exit("measure_registers.py: there is no nvcc; install the CUDA Toolkit and put nvcc on PATH")
    ask = lambda option: subprocess.run([nvcc, option], capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"sm_(\d+)$", ask("--list-gpu-code"), re.MULTILINE))
    if unknown := [c for c in wanted if c not in known]:
        sys.exit(f"measure_registers.py: this nvcc does not know {', '.join(unknown)}; it knows {', '.join(sorted(known, key=int))}")
    capabilities = wanted or [c for c in CAPABILITIES if c in known]

    version = re.search(r"release ([\d.]+), V([\d.]+)", ask("--version"))[2]
    for phase in PHASES:
        measure(phase, nvcc, version, capabilities)


if __name__ == "__main__":
    main(sys.argv[1:])
