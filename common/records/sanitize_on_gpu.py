"""Runs small problems of every phase under each tool of compute-sanitizer, and records what they say.

  python3 common/records/sanitize_on_gpu.py --out docs/results/h200/sanitizers.txt      on a machine with a GPU and a CUDA build

The CPU machine diagnoses the same mistakes from the same source; this shows that a GPU's own tools agree on the kernels as nvcc
compiles them. Ends with 1 if a tool finds anything, or does not run to its end.
"""

import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = {
    "memcheck": "accesses out of bounds or misaligned",
    "racecheck": "races in shared memory",
    "initcheck": "reads of global memory that nobody wrote",
    "synccheck": "barriers and collectives that some threads miss",
}
ELEMENT_TYPES = ("f32", "f16", "bf16")
# Ragged in every dimension, several batches and heads, grouped heads, each element type; small, since racecheck is slow.
PROBLEMS = [
    "--dtype f32 --batch 2 --heads 2 --keys 70 --head-dim 40",
    "--dtype f16 --batch 2 --heads 2 --kv-heads 1 --keys 133 --head-dim 64",
    "--dtype bf16 --batch 2 --heads 2 --queries 33 --keys 65 --head-dim 128",
    "--dtype f16 --heads 2 --queries 70 --keys 133 --head-dim 256",
    "--dtype f32 --heads 1 --queries 3 --keys 900 --head-dim 32",
    # More blocks than an H200 has multiprocessors.
    "--dtype f32 --heads 80 --queries 130 --keys 100 --head-dim 64",
]
# In a phase's folder, where its kernels get runs of their own: `dtypes` that they take, and for some tools the `only` kernels that the tool
# can judge, each by a part of its name, and in a run of its own.
APART = "rung/sanitizers.toml"
LIMIT_S = 300


def groups():
    """Phases that run together: [("0 1 2", {})], then those with a file of their own and what it says."""
    together, apart = [], []
    for phase in (ROOT / "common/rung/phases.txt").read_text().split():
        number, file = phase.removeprefix("phase").split("_")[0], ROOT / phase / APART
        if file.exists():
            apart.append((number, tomllib.loads(file.read_text())))
        else:
            together.append(number)
    return [(" ".join(together), {}), *apart]


def sanitize(options, tool, phases, kernel, problem, launches):
    """(verdict in words, whether it is clean, the kernels that ran). `launches`: a path for the profile, where nothing is."""
    only = ["--kernel-name", f"kernel_substring={kernel}"] if kernel else []
    command = [options.sanitizer, "--tool", tool, "--error-exitcode", "9", *only, options.program, "profile", "--device", "cuda",
               "--json", str(launches), *problem.split(), *phases.split()]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"not finished after {LIMIT_S} s", False, {}
    summary = re.findall(r"SUMMARY: (.*)", run.stdout + run.stderr)
    if run.returncode or not summary or not launches.exists():
        sys.stderr.write(run.stdout[-3000:] + run.stderr[-3000:])
        return (summary[-1] if summary else "no summary") + f", exit code {run.returncode}", False, {}
    report = json.loads(launches.read_text())
    kernels = {}
    for rung in report["phases"]:
        kernels.setdefault(rung["phase"], []).extend(launch["kernel"] for launch in rung["launches"])
    clean = re.match(r"0 (errors|hazards)", summary[-1]) is not None
    return summary[-1], clean, {"report": report, "kernels": kernels}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/common/cli/ladder-profile"), help="the program that profiles")
    parser.add_argument("--sanitizer", default="compute-sanitizer", help="compute-sanitizer (from PATH)")
    parser.add_argument("--phase", action="append", metavar="N", help="only this phase, one that gets runs of its own; may be given again")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at a time (1)")
    parser.add_argument("--out", required=True, metavar="FILE", help="where the record goes")
    options = parser.parse_args()

    lines, found, report, kernels = [], 0, {}, {}
    chosen = [(phases, says) for phases, says in groups() if not options.phase or phases in options.phase]
    if options.phase and len(chosen) != len(set(options.phase)):
        parser.error(f"--phase: these have runs of their own: {', '.join(phases for phases, says in groups() if says)}")
    problems = [(phases, says, problem) for phases, says in chosen for problem in PROBLEMS
                if problem.split()[1] in says.get("dtypes", ELEMENT_TYPES)]
    runs = [(tool, phases, kernel, problem) for tool in TOOLS for phases, says, problem in problems
            for kernel in says.get("only", {}).get(tool, [None])]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = pool.map(lambda number: sanitize(options, *runs[number], pathlib.Path(folder, f"{number}.json")), range(len(runs)))
        begun = None
        for (tool, phases, kernel, problem), (verdict, clean, told) in zip(runs, results):
            if tool != begun:
                lines.append(f"{tool}: {TOOLS[tool]}")
                begun = tool
            report = told.get("report", report)
            for phase, names in told.get("kernels", {}).items():
                kernels.setdefault(phase, set()).update(names)
            found += not clean
            count = sum(len(names) for names in told.get("kernels", {}).values())
            verdict += f", of {kernel} alone" if kernel else ""
            what_ran = f"{problem} {phases}"
            lines.append(f"  {'clean' if clean else 'FOUND':6} {what_ran:88} {count:3} launches   {verdict}")
            print(lines[-1], flush=True)
    head = [f"compute-sanitizer on {report.get('device_name', 'no device')}, commit "
            f"{report.get('commit', os.environ.get('LADDER_COMMIT', 'unknown'))}, {datetime.date.today()}",
            "kernels: " + "; ".join(f"phase {phase}: {', '.join(sorted(names))}" for phase, names in kernels.items()), ""]
    tail = ["", f"{found} of {len(runs)} runs found something" if found else f"all {len(runs)} runs clean"]
    pathlib.Path(options.out).write_text("\n".join(head + lines + tail) + "\n")
    print(tail[1])
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
