"""Holds what the CPU machine counts against what Nsight Compute measures, kernel by kernel, on the same problems.

  python3 common/records/compare_with_ncu.py --out docs/results/h200/counters      on a machine with a GPU, ncu and a CUDA build

Each problem runs twice through `ladder profile`: on the CPU machine, with the limits of the GPU's profile, and on the GPU under
ncu. Writes FILE.json and FILE.txt, and ends with 1 if a difference is left that nothing explains. What the counters mean, and
which differences are to be expected, is in docs/counters.md.

  --program PATH    the program that profiles (build/common/cli/ladder-profile)
  --ncu PATH        Nsight Compute's ncu (from PATH, or from the usual places)
  --profile NAME    the device profile of the GPU (found by the GPU's name)
  --keep FOLDER     keep ncu's CSV files and both JSON files of each problem there
  --replay FOLDER   compare the files that --keep left, without a GPU and without ncu
  --again REPORT    compare what ncu measured for this earlier report (FILE.json) with what the CPU machine counts now, without
                    a GPU and without ncu; the kernels must be the same
"""

import argparse
import csv
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "common/records"))
import compact  # noqa: E402

PROBLEMS = {
    "f32": ["--heads", "2", "--keys", "256", "--head-dim", "64", "--dtype", "f32"],
    "f16": ["--heads", "2", "--keys", "256", "--head-dim", "64", "--dtype", "f16"],
    "f32-ragged": ["--heads", "2", "--keys", "200", "--head-dim", "64", "--dtype", "f32"],
    "f16-ragged": ["--heads", "2", "--keys", "200", "--head-dim", "64", "--dtype", "f16"],
    "bf16-grouped": ["--heads", "4", "--kv-heads", "2", "--keys", "130", "--queries", "7", "--head-dim", "80", "--dtype", "bf16"],
}

# What is compared: the counter's name here, the metrics of ncu that add up to it, and the difference that passes, in percent.
#
# Reading shared memory is LDS and LDSM (ldmatrix), writing it is STS and LDGSTS (cp.async); ncu counts each apart, and STSM (stmatrix) not at all. What
# products of warpgroups read is in no counter of reads. Sectors that TMA moves have counters of their own, from Hopper on. The counters of
# instructions are those by machine code (sass): the hardware's count the issued ones, among them the stores that a predicate turns
# off for all lanes, and the `@!PT LDS RZ, [RZ]` that nvcc puts before asynchronous copies, three at a time, and that do nothing.
COPIES = ("sm__sass_inst_executed_op_ldgsts_cache_access.sum", "sm__sass_inst_executed_op_ldgsts_cache_bypass.sum")
WRITTEN_BY_COPIES = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum"
READ_BY_TMA = ("l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum",)
WRITTEN_BY_TMA = tuple(f"l1tex__m_l1tex2xbar_write_sectors_mem_global_op_tma_{op}.sum" for op in ("st", "red"))
WRITTEN_BY_STMATRIX = ("smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_stsm.sum",)
WRITES = ("st", "red", "atom")  # an atomic update is one, with an answer or without
SINCE_HOPPER = (*READ_BY_TMA, *WRITTEN_BY_TMA, *WRITTEN_BY_STMATRIX)
COMPARED = {
    "global sectors read": (("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", *READ_BY_TMA), 0),
    "global sectors written": ((*(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum" for op in WRITES), *WRITTEN_BY_TMA), 0),
    "global requests read": (("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",), 0),
    "global requests written": (tuple(f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum" for op in WRITES), 0),
    "shared wavefronts of reads": (("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",), 5),
    "shared wavefronts of writes": (("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum", WRITTEN_BY_COPIES), 5),
    "shared requests that read": (("smsp__sass_inst_executed_op_shared_ld.sum", "smsp__sass_inst_executed_op_ldsm.sum"), 5),
    "shared requests that write": (("smsp__sass_inst_executed_op_shared_st.sum", *COPIES), 5),
    "registers per thread": (("launch__registers_per_thread",), 0),
    "blocks by registers": (("launch__occupancy_limit_registers",), 0),
    "occupancy, %": (("sm__maximum_warps_per_active_cycle_pct",), 0.5),
}
# Recorded beside them: what no model of the source can know, or what shows where a difference comes from.
RECORDED = [
    "launch__occupancy_limit_blocks",
    "launch__occupancy_limit_shared_mem",  # of the carve-out that the driver chose, not of the largest
    "launch__occupancy_limit_warps",
    "launch__waves_per_multiprocessor",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",  # with products of warpgroups
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "lts__t_sectors_op_read.sum",
    "lts__t_sectors_op_write.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
]
# Newer versions of ncu count wavefronts by instruction, without those that wait for the arbiter. Not every one has them.
BY_INSTRUCTION = {
    "shared wavefronts of reads": ("smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
                                   "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldsm.sum"),
    "shared wavefronts of writes": ("smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum", *WRITTEN_BY_STMATRIX,
                                    WRITTEN_BY_COPIES),
}

# In a phase's folder: differences that the machine code explains. The model counts what the source says.
EXPLANATIONS = "rung/counters.toml"


class Problem(Exception):
    pass


def number(text):
    """ncu's raw page has words among its metrics (such as the device's name); those are nothing to compare."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def kernel_name(text):
    """"void ladder::cuda::some_kernel<float, (int)64>(…)" -> "some_kernel"."""
    return re.sub(r"[<(].*", "", text, flags=re.DOTALL).split("::")[-1].split()[-1]


def read_ncu(text):
    """The kernels of an ncu CSV in the order in which they ran: [{"kernel": …, "metrics": {name: number}}]. Takes both forms: a
    column for each metric (--page raw), or a line (--page details)."""
    start = re.search(r'^"ID",', text, re.MULTILINE)
    if not start:
        raise Problem("ncu left no table; it said:\n" + text[-2000:])
    kernels = {}
    for row in csv.DictReader(text[start.start():].splitlines()):
        if not (row["ID"] or "").isdigit():  # the line of units, or a remark of ncu's behind the table
            continue
        kernel = kernels.setdefault(int(row["ID"]), {"kernel": kernel_name(row["Kernel Name"]), "metrics": {}})
        pairs = [(row["Metric Name"], row["Metric Value"])] if "Metric Name" in row else row.items()
        for name, value in pairs:
            if re.match(r"\w+__", name or "") and value:
                kernel["metrics"][name] = number(value)
    return [kernels[i] for i in sorted(kernels)]


def counted(launch):
    """What `ladder profile --json` says of a launch, under the names of COMPARED."""
    def total(numbers):
        """None if the CPU machine does not know one of them."""
        numbers = list(numbers)
        return None if None in numbers else sum(numbers)

    tensors = launch.get("global_memory", {}).values()
    shared, occupancy = launch["shared_memory"], launch["occupancy"]
    return {
        "global sectors read": total(t["sectors_read"] for t in tensors),
        "global sectors written": total(t["sectors_written"] for t in tensors),
        "global requests read": sum(t["requests_read"] for t in tensors),
        "global requests written": sum(t["requests_written"] for t in tensors),
        "shared wavefronts of reads":
            None if shared["wavefronts"] is None else shared["wavefronts_of_reads"] - shared["wavefronts_of_products"],
        "shared wavefronts of writes":
            None if shared["wavefronts"] is None else shared["wavefronts"] - shared["wavefronts_of_reads"],
        "shared requests that read": shared["requests_that_read"] - shared["requests_of_products"],
        "shared requests that write": shared["requests"] - shared["requests_that_read"],
        "registers per thread": launch["registers_per_thread"],
        "blocks by registers": occupancy["blocks_by_registers"],
        "occupancy, %": 100 * occupancy["fraction"],
    }


@functools.cache
def explanations():
    """Of all phases; docs/counters.md has the format."""
    files = [ROOT / phase / EXPLANATIONS for phase in (ROOT / "common/rung/phases.txt").read_text().split()]
    return [entry for file in files if file.exists() for entry in tomllib.loads(file.read_text())["explanation"]]


def explanation(instance, counter, percent, entries):
    return next((e["why"] for e in entries
                 if re.fullmatch(e["kernel"], instance) and re.fullmatch(e["counter"], counter) and abs(percent) <= e["percent"]), None)


def compare_counter(counter, ours, theirs, tolerance, instance, entries=None):
    """One line of the result. `verdict` is equal, within N %, explained, UNEXPLAINED, or not measured. `entries`: explanations,
    those of the phases if there are no others."""
    line = {"counted": ours, "ncu": theirs}
    if ours is None or theirs is None:
        return {**line, "verdict": "not measured" if theirs is None else "not known here"}
    difference = 0.0 if ours == theirs else 100.0 * (ours - theirs) / theirs if theirs else float("inf")
    line["difference_percent"] = round(difference, 3) if difference != float("inf") else "inf"
    if abs(difference) < 1e-9:
        return {**line, "verdict": "equal"}
    if abs(difference) <= tolerance:
        return {**line, "verdict": f"within {tolerance} %"}
    why = explanation(instance, counter, difference, explanations() if entries is None else entries)
    return {**line, "verdict": "explained" if why else "UNEXPLAINED", **({"explanation": why} if why else {})}


def measured_as(names, metrics):
    """Their sum; None where ncu left one out, unless it is an instruction that no older GPU has."""
    hopper = any(name in metrics for name in SINCE_HOPPER)
    values = [metrics.get(name) for name in names if hopper or name not in SINCE_HOPPER]
    return sum(values) if values and None not in values else None


def compare_launch(ours, totals, metrics):
    """`totals`: what ncu measured of each counter. `metrics`: ncu's metrics by name."""
    instance = ours["instance"] or ours["kernel"]
    values = counted(ours)
    recorded = [*RECORDED, *(name for names in BY_INSTRUCTION.values() for name in names)]
    result = {"kernel": instance, "grid": ours["grid"], "block": ours["block"], "counters": {},
              "ncu": {name: metrics[name] for name in recorded if name in metrics}}
    for counter, (_, tolerance) in COMPARED.items():
        measured = totals[counter]
        line = compare_counter(counter, values[counter], measured, tolerance, instance)
        by_instruction = measured_as(BY_INSTRUCTION.get(counter, ()), metrics)
        if line["verdict"] in ("explained", "UNEXPLAINED") and by_instruction is not None:
            again = compare_counter(counter, values[counter], by_instruction, tolerance, instance)
            if again["verdict"] not in ("explained", "UNEXPLAINED"):
                again["explanation"] = (f"counted by instruction; the hardware's counter says {measured:.0f}, which includes passes "
                                        "that waited for the arbiter")
                line = again
        result["counters"][counter] = line
    return result


def merged(kernels):
    """Launches that ncu saw one by one, and that `ladder profile` counts as one kind: sums of what adds up."""
    total = dict(kernels[0]["metrics"])
    for kernel in kernels[1:]:
        for name, value in kernel["metrics"].items():
            if name.endswith(".sum") and value is not None:
                total[name] = (total.get(name) or 0) + value
    return {"kernel": kernels[0]["kernel"], "metrics": total}


def compare(cpu, cuda, ncu):
    """Of one problem: the two reports of `ladder profile`, and ncu's kernels."""
    ran_on_gpu = [launch for phase in cuda["phases"] for launch in phase["launches"]]
    names = [launch["kernel"] for launch in ran_on_gpu for _ in range(launch["launches"])]
    seen = [kernel["kernel"] for kernel in ncu]
    if names != seen:
        raise Problem(f"ncu saw other kernels than the program launched.\n  launched: {names}\n  ncu saw:  {seen}")
    launches = [launch for phase in cpu["phases"] for launch in phase["launches"]]
    results, position = [], 0
    for ours, theirs in zip(launches, ran_on_gpu, strict=True):
        for key in ("kernel", "instance", "grid", "block", "shared_bytes_per_block"):
            if ours[key] != theirs[key] and ours[key] and theirs[key]:
                raise Problem(f"{ours['kernel']}: {key} is {ours[key]} on the CPU machine and {theirs[key]} on the GPU; "
                              f"is {cpu['profile']} the profile of this GPU?")
        rows = ncu[position:position + theirs["launches"]]
        position += theirs["launches"]
        metrics = merged(rows)["metrics"]
        totals = {counter: measured_as(names, metrics) for counter, (names, _) in COMPARED.items()}
        results.append(compare_launch(ours, totals, metrics))
    return results


def run_ncu(ncu, program, arguments, csv_file, cuda_file):
    compared = [name for names, _ in COMPARED.values() for name in names]
    by_instruction = [name for names in BY_INSTRUCTION.values() for name in names if name not in compared]
    older = [name for name in compared if name not in SINCE_HOPPER]
    before_hopper = [name for name in by_instruction if name not in SINCE_HOPPER]
    # Before compute capability 8.0 there are no asynchronous copies to ask for.
    attempts = [compared + RECORDED + by_instruction, older + RECORDED + before_hopper, older + RECORDED, older,
                [names[0] for names, _ in COMPARED.values()]]
    for attempt in attempts:
        command = [ncu, "--csv", "--page", "raw", "--print-units", "base", "--kernel-name-base", "demangled",
                   "--kernel-name", "regex:ladder::cuda::", "--metrics", ",".join(attempt), "--log-file", str(csv_file), "--force-overwrite",
                   program, "profile", *arguments, "--device", "cuda", "--json", str(cuda_file)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=150)
        said = csv_file.read_text() if csv_file.exists() else ""
        if result.returncode == 0 and re.search(r'^"ID",', said, re.MULTILINE):
            return said
        print("  ncu failed, trying with fewer metrics:\n" + (said + result.stdout + result.stderr)[-1500:], flush=True)
    raise Problem("ncu failed with the fewest metrics too; run it by hand:\n  " + " ".join(command))


def profile_of_gpu():
    name = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True).stdout
    known = ["h200", "h100", "a100", "b200", "rtx4090", "rtx3090", "rtx5060ti", "t4", "v100", "gtx1080"]
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    found = next((profile for profile in known if profile in plain), None)
    if not found:
        raise Problem(f"no profile is known for this GPU ({name.strip() or 'none found'}); name one with --profile")
    return found


def measure(options, name, arguments, folder):
    cpu_file, cuda_file, csv_file = (folder / f"{name}.{kind}" for kind in ("cpu.json", "cuda.json", "csv"))
    if not options.replay:
        print(f"{name}: on the CPU machine", flush=True)
        subprocess.run([options.program, "profile", *arguments, "--profile", options.profile, "--json", str(cpu_file)],
                       check=True, stdout=subprocess.DEVNULL)
        print(f"{name}: on the GPU, under ncu", flush=True)
        run_ncu(options.ncu, options.program, arguments, csv_file, cuda_file)
    missing = [str(file) for file in (cpu_file, cuda_file, csv_file) if not file.exists()]
    if missing:
        raise Problem("missing: " + ", ".join(missing))
    cpu, cuda = json.loads(cpu_file.read_text()), json.loads(cuda_file.read_text())
    return cpu, cuda, compare(cpu, cuda, read_ncu(csv_file.read_text()))


def compare_again(options, problem):
    """One problem of an earlier report, its measurements as they were, its counts anew: the launches, and the commit that counted."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "cpu.json"
        subprocess.run([options.program, "profile", *problem["arguments"], "--profile", options.profile, "--json", str(file)],
                       check=True, stdout=subprocess.DEVNULL)
        cpu = json.loads(file.read_text())
    launches = [launch for phase in cpu["phases"] for launch in phase["launches"]]
    if [launch["instance"] or launch["kernel"] for launch in launches] != [launch["kernel"] for launch in problem["launches"]]:
        raise Problem(f"{problem['name']}: the report is of other kernels than run now; measure on a GPU")
    results = []
    for ours, theirs in zip(launches, problem["launches"], strict=True):
        # Where it was the counter by instruction that agreed, that is the total, and the remark on it stays.
        totals = {counter: line["ncu"] for counter, line in theirs["counters"].items()}
        result = compare_launch(ours, totals, theirs["ncu"])
        for counter, line in result["counters"].items():
            if line["verdict"] == "equal" and "explanation" in theirs["counters"][counter]:
                line["explanation"] = theirs["counters"][counter]["explanation"]
        results.append(result)
    return results, cpu["commit"]


def as_text(report):
    lines = [f"The CPU machine's counters against Nsight Compute on {report['device_name']}, commit {report['commit']}"]
    if "counted_at" in report:
        lines[0] += f"; counted anew at commit {report['counted_at']}"
    show = lambda value: "-" if value is None else f"{value:.0f}" if float(value).is_integer() else f"{value:.1f}"
    notes = []
    for problem in report["problems"]:
        lines += ["", problem["name"] + "   " + " ".join(problem["arguments"])]
        for launch in problem["launches"]:
            lines.append(f"  {launch['kernel']}   grid {launch['grid']}, block {launch['block']}")
            for counter, line in launch["counters"].items():
                if not line["counted"] and not line["ncu"]:
                    continue
                note = ""
                if "explanation" in line:
                    if line["explanation"] not in notes:
                        notes.append(line["explanation"])
                    note = f" [{notes.index(line['explanation']) + 1}]"
                difference = line.get("difference_percent")
                percent = "" if not isinstance(difference, float) or difference == 0 else f"{difference:+.1f} %"
                lines.append(f"    {counter:<28}{show(line['counted']):>10}{show(line['ncu']):>12}{percent:>10}  {line['verdict']}{note}")
    lines += ["", "Columns: counted by the CPU machine, measured by ncu, difference, verdict."]
    lines += [f"[{i}] {note}" for i, note in enumerate(notes, 1)]
    counts = report["verdicts"]
    lines += ["", "Together: " + ", ".join(f"{counts[v]} {v}" for v in sorted(counts))]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/common/cli/ladder-profile"))
    parser.add_argument("--ncu", default=shutil.which("ncu") or "/usr/local/cuda/bin/ncu")
    parser.add_argument("--profile")
    parser.add_argument("--out", required=True, help="the results go to FILE.json and FILE.txt", metavar="FILE")
    parser.add_argument("--keep", metavar="FOLDER")
    parser.add_argument("--replay", metavar="FOLDER")
    parser.add_argument("--problem", action="append", choices=list(PROBLEMS), help="only this one; may be given again")
    parser.add_argument("--again", metavar="REPORT")
    options = parser.parse_args()
    if options.again and (not options.profile or options.replay or options.keep or options.problem):
        raise Problem("--again takes every problem of the report, and needs --profile, the device profile of the GPU that was measured; "
                      "--replay, --keep and --problem go with measurements only")
    if not options.replay and not options.profile:
        options.profile = profile_of_gpu()

    report = {"commit": "", "device_name": "", "problems": [], "verdicts": {}}
    if options.again:
        report = json.loads(pathlib.Path(options.again).read_text()) | {"verdicts": {}}
        for problem in report["problems"]:
            problem["launches"], report["counted_at"] = compare_again(options, problem)
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(options.replay or options.keep or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in [] if options.again else options.problem or PROBLEMS:
            cpu, cuda, launches = measure(options, name, PROBLEMS[name], folder)
            report["commit"], report["device_name"] = cuda["commit"], cuda["device_name"]
            report["problems"].append({"name": name, "arguments": PROBLEMS[name], "launches": launches})
    for problem in report["problems"]:
        for launch in problem["launches"]:
            for line in launch["counters"].values():
                report["verdicts"][line["verdict"]] = report["verdicts"].get(line["verdict"], 0) + 1

    out = pathlib.Path(options.out)
    out.with_suffix(".json").write_text(compact.text(report))
    text = as_text(report)
    out.with_suffix(".txt").write_text(text)
    print(text)
    return 1 if report["verdicts"].get("UNEXPLAINED") else 0


if __name__ == "__main__":
    os.environ.setdefault("LADDER_COMMIT", subprocess.run(
        ["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=12"], capture_output=True, text=True).stdout.strip() or "unknown")
    try:
        sys.exit(main())
    except (Problem, subprocess.SubprocessError, OSError) as problem:
        sys.exit(f"compare_with_ncu.py: {problem}")
