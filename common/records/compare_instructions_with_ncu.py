"""Holds what the CPU machine counts of Hopper's instructions and of atomics against what Nsight Compute measures.

  python3 common/records/compare_instructions_with_ncu.py --out docs/results/h200/instructions    on a machine with a GPU and ncu

The cases are those of tests/simt/instruction_counts.cpp: copies by TMA, products of a warpgroup, stmatrix, atomics, a launch each.
Writes FILE.json and FILE.txt, and ends with 1 if a difference is left that nothing in tests/simt/instruction_counts.toml explains.
compare_with_ncu.py beside this file does the same for the phases' kernels.

  --program PATH    (build/tests/simt/instruction_counts)
  --ncu PATH        Nsight Compute's ncu (from PATH, or from the usual places)
  --keep FOLDER     keep what was measured there, and measure every other counter that ncu has of these units, for some cases
  --seconds N       as long as there is time, with --keep (100)
  --replay FOLDER   compare what --keep left with what the CPU machine counts now, without a GPU and without ncu
  --again REPORT    the same with what an earlier report (FILE.json) has of ncu's; the kernels must be the same
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "common/records"))
import compact  # noqa: E402
from compare_with_ncu import Problem, compare_counter, measured_as, read_ncu  # noqa: E402

EXPLANATIONS = ROOT / "tests/simt/instruction_counts.toml"

GLOBAL, SHARED = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum", "l1tex__data_pipe_lsu_wavefronts_mem_shared{}.sum"
UPDATES = ("st", "atom", "red")
# The counter's name here, the metrics of ncu that add up to it, and the difference that passes, in percent.
COMPARED = {
    "sectors read by TMA": (("l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum",), 0),
    "sectors written by TMA": (tuple(f"l1tex__m_l1tex2xbar_write_sectors_mem_global_op_tma_{op}.sum" for op in ("st", "red")), 0),
    "sectors read": ((GLOBAL.format("sectors", "ld"),), 0),
    "sectors written or updated": (tuple(GLOBAL.format("sectors", op) for op in UPDATES), 0),
    "requests that read": ((GLOBAL.format("requests", "ld"),), 0),
    "requests that write or update": (tuple(GLOBAL.format("requests", op) for op in UPDATES), 0),
    "shared wavefronts of reads": ((SHARED.format("_op_ld"),), 5),
    "shared wavefronts of writes": ((SHARED.format("_op_st"), SHARED.format("_op_atom")), 5),
    "shared wavefronts": ((SHARED.format(""),), 5),
}

# What is measured besides, and kept in the report: what shows where a difference comes from, or what ncu has no part in.
MEASURED = """
l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld
l1tex__m_l1tex2xbar_write_sectors_mem_global_op_tma_st l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st
l1tex__m_l1tex2xbar_write_sectors_mem_global_op_tma_red l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_red
l1tex__m_xbar2l1tex_read_sectors_pipe_tma l1tex__m_l1tex2xbar_write_sectors_pipe_tma l1tex__tmain_requests
smsp__sass_inst_executed_op_tma_ld smsp__sass_inst_executed_op_tma_st smsp__sass_inst_executed_op_tma_red
l1tex__t_sectors_pipe_lsu_mem_global_op_ld l1tex__t_sectors_pipe_lsu_mem_global_op_st
l1tex__t_sectors_pipe_lsu_mem_global_op_atom l1tex__t_sectors_pipe_lsu_mem_global_op_red
l1tex__t_requests_pipe_lsu_mem_global_op_ld l1tex__t_requests_pipe_lsu_mem_global_op_st
l1tex__t_requests_pipe_lsu_mem_global_op_atom l1tex__t_requests_pipe_lsu_mem_global_op_red
l1tex__data_pipe_lsu_wavefronts_mem_shared l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld
l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom
smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld
smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldsm smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st
smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_stsm smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_atom
smsp__sass_inst_executed_op_shared_ld smsp__sass_inst_executed_op_shared_st smsp__sass_inst_executed_op_shared_atom
smsp__sass_inst_executed_op_shared_gmma smsp__sass_inst_executed_op_ldsm smsp__sass_inst_executed_op_stsm
smsp__sass_inst_executed_op_global_ld smsp__sass_inst_executed_op_global_st smsp__sass_inst_executed_op_global_atom
smsp__sass_inst_executed_op_global_red
sm__inst_executed_pipe_tensor_op_gmma smsp__inst_executed_pipe_tensor_op_gmma sm__pipe_tensor_cycles_active
l1tex__data_bank_reads l1tex__data_bank_writes l1tex__data_pipe_lsu_wavefronts l1tex__data_bank_conflicts_pipe_lsu
lts__t_sectors_srcunit_tex_op_read lts__t_sectors_srcunit_tex_op_write lts__t_sectors_srcunit_tex_op_atom
lts__t_sectors_srcunit_tex_op_red lts__t_requests_srcunit_tex lts__t_sectors_srcunit_tex
""".split()

# What is looked at besides, with --keep.
UNITS = re.compile(r"(l1tex__(data|m_|tmain|t_(sectors|requests)|d_|f_|lsuin|writeback)|lts__(t_(sectors|requests|tag)|d_|lts2xbar|xbar2lts)|"
                   r"idc__|gcc__|smsp?__(sass_)?(inst_executed|l1tex)|smsp?__(pipe|ops_path).*(tensor|gmma|tma)|.*(tma|gmma|ublk|gmem))")
SOME_CASES = ["tma_load, rows of 256 bytes", "tma_load, from the middle of a sector on", "tma_load, rows 80 bytes apart",
              "tma_store, rows of 256 bytes", "tma_store, from the middle of a sector on", "tma_add, rows of 256 bytes", "bulk_load",
              "wgmma, A and B k-major, n 96", "wgmma, A and B mn-major, n 96", "wgmma, A in registers, B mn-major",
              "wgmma, A and B k-major, n 256", "stmatrix, x4", "atomics"]
AT_A_TIME = 80


def known_metrics(ncu, folder):
    """The counters of this GPU, by ncu's own list."""
    said = subprocess.run([ncu, "--query-metrics"], capture_output=True, text=True, timeout=60).stdout
    (folder / "metrics.txt").write_text(said)
    return {line.split()[0] for line in said.splitlines() if re.match(r"\w+__\w+\s+Counter\s", line)}


def run_ncu(options, metrics, cases, csv_file, json_file):
    """What ncu wrote; without metrics that it says it does not know."""
    metrics = list(metrics)
    for _ in range(12):
        command = [options.ncu, "--csv", "--page", "raw", "--print-units", "base", "--kernel-name-base", "demangled",
                   "--kernel-name", "regex:ladder::cuda::", "--clock-control", "none", "--metrics", ",".join(m + ".sum" for m in metrics),
                   "--log-file", str(csv_file), "--force-overwrite", options.program, "--device", "cuda", "--json", str(json_file), *cases]
        result = subprocess.run(command, capture_output=True, text=True, timeout=150)
        said = csv_file.read_text() if csv_file.exists() else ""
        if result.returncode == 0 and re.search(r'^"ID",', said, re.MULTILINE):
            return said
        unknown = [m for m in metrics if re.search(rf"\b{m}(\.sum)?\b", said + result.stdout + result.stderr)]
        print("  ncu failed:\n" + (said + result.stdout + result.stderr)[-800:], flush=True)
        if not unknown or len(unknown) == len(metrics):
            break
        metrics = [m for m in metrics if m not in unknown]
    raise Problem("ncu failed; run it by hand:\n  " + " ".join(command))


def look_around(options, known, folder, until):
    rest = sorted(m for m in known if UNITS.match(m) and m not in MEASURED)
    for number, first in enumerate(range(0, len(rest), AT_A_TIME)):
        if time.monotonic() > until:
            print(f"  no time is left for {len(rest) - first} of {len(rest)} further counters", flush=True)
            return
        print(f"further counters from {rest[first]} on", flush=True)
        try:
            run_ncu(options, rest[first:first + AT_A_TIME], SOME_CASES, folder / f"further-{number}.csv", folder / "further.json")
        except (Problem, subprocess.SubprocessError) as problem:
            print(f"  {problem}", flush=True)


def counted(case):
    """What the CPU machine counted of a case, under the names of COMPARED."""
    launch = case["launch"]
    tensors, shared = launch.get("global_memory", {}), launch["shared_memory"]

    def total(key, by_tma):
        return sum(numbers[key] for name, numbers in tensors.items() if (name in case["by_tma"]) == by_tma)

    values = {
        "sectors read by TMA": total("sectors_read", True),
        "sectors written by TMA": total("sectors_written", True),
        "sectors read": total("sectors_read", False),
        "sectors written or updated": total("sectors_written", False),
        "requests that read": total("requests_read", False),
        "requests that write or update": total("requests_written", False),
        "shared wavefronts of writes": shared["wavefronts"] - shared["wavefronts_of_reads"],
    }
    # ncu has no counter of a product's reads by themselves: they are in the total. In the total of other kernels is more, such as
    # what barriers take.
    if case["case"].startswith("wgmma"):
        values["shared wavefronts"] = shared["wavefronts"]
    else:
        values["shared wavefronts of reads"] = shared["wavefronts_of_reads"]
    return values


def compare(cases, measured):
    """`measured`: ncu's metrics of each case, or what an earlier report has of them."""
    entries = [{**entry, "kernel": entry["case"]} for entry in tomllib.loads(EXPLANATIONS.read_text())["explanation"]]
    kept = {name for names, _ in COMPARED.values() for name in names} | {name + ".sum" for name in MEASURED}
    results = []
    for case, metrics in zip(cases, measured, strict=True):
        ours = counted(case)
        theirs = {counter: measured_as(COMPARED[counter][0], metrics) for counter in ours}
        results.append({
            "case": case["case"],
            "kernel": case["launch"]["instance"] or case["launch"]["kernel"],
            "counters": {counter: compare_counter(counter, ours[counter], theirs[counter], COMPARED[counter][1], case["case"], entries)
                         for counter in ours if ours[counter] or theirs[counter]},
            "ncu": {name: value for name, value in metrics.items() if value is not None and name in kept},
        })
    return results


def as_text(report):
    lines = [f"The CPU machine's counts of instructions, commit {report['counted_at']}, against Nsight Compute on "
             f"{report['device_name']}, commit {report['commit']}"]
    notes = []
    for case in report["cases"]:
        lines += ["", f"{case['case']}   {case['kernel']}"]
        for counter, line in case["counters"].items():
            note = ""
            if "explanation" in line:
                if line["explanation"] not in notes:
                    notes.append(line["explanation"])
                note = f" [{notes.index(line['explanation']) + 1}]"
            difference = line.get("difference_percent")
            percent = "" if not isinstance(difference, float) or difference == 0 else f"{difference:+.1f} %"
            lines.append(f"  {counter:<30}{line['counted']:>8}{line['ncu']:>8.0f}{percent:>10}  {line['verdict']}{note}")
    lines += ["", "Columns: counted by the CPU machine, measured by ncu, difference, verdict."]
    lines += [f"[{i}] {note}" for i, note in enumerate(notes, 1)]
    lines += ["", "Together: " + ", ".join(f"{count} {verdict}" for verdict, count in sorted(report["verdicts"].items()))]
    return "\n".join(lines) + "\n"


def commit():
    return subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=12"], capture_output=True,
                          text=True).stdout.strip() or "unknown"


def measure(options, folder, until):
    known = known_metrics(options.ncu, folder)
    (folder / "commit.txt").write_text(commit() + "\n")
    names = [name.removesuffix(".sum") for metrics, _ in COMPARED.values() for name in metrics]
    wanted = [m for m in dict.fromkeys(names + MEASURED) if m in known] if known else names
    run_ncu(options, wanted, [], folder / "measured.csv", folder / "cuda.json")
    if options.keep:
        look_around(options, known, folder, until)


def measured_before(options, folder):
    """The report to be filled in, and ncu's metrics of each case."""
    if options.again:
        report = json.loads(pathlib.Path(options.again).read_text())
        return {key: report[key] for key in ("commit", "device_name")}, [(c["kernel"], c["ncu"]) for c in report["cases"]]
    device = re.search(r"^Device (.*)", (folder / "metrics.txt").read_text(), re.MULTILINE)
    launches = [case["launch"] for case in json.loads((folder / "cuda.json").read_text())["cases"]]
    kernels = read_ncu((folder / "measured.csv").read_text())
    return ({"commit": (folder / "commit.txt").read_text().strip(), "device_name": device[1] if device else "unknown"},
            [(launch["instance"] or launch["kernel"], kernel["metrics"]) for launch, kernel in zip(launches, kernels, strict=True)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/tests/simt/instruction_counts"))
    parser.add_argument("--ncu", default=shutil.which("ncu") or "/usr/local/cuda/bin/ncu")
    parser.add_argument("--out", required=True, metavar="FILE")
    parser.add_argument("--keep", metavar="FOLDER")
    parser.add_argument("--seconds", type=float, default=100)
    parser.add_argument("--replay", metavar="FOLDER")
    parser.add_argument("--again", metavar="REPORT")
    options = parser.parse_args()
    until = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(options.replay or options.keep or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if not options.replay and not options.again:
            measure(options, folder, until)
        cpu_file = pathlib.Path(temporary) / "cpu.json"
        subprocess.run([options.program, "--device", "cpu", "--json", str(cpu_file)], check=True)
        cases = json.loads(cpu_file.read_text())["cases"]
        report, measured = measured_before(options, folder)
    if len(measured) != len(cases):
        raise Problem(f"{len(cases)} cases ran on the CPU machine, and {len(measured)} were measured; measure anew on a GPU")
    report["counted_at"] = commit()
    report["cases"] = compare(cases, [metrics for _, metrics in measured])
    report["verdicts"] = {}
    for case in report["cases"]:
        for line in case["counters"].values():
            report["verdicts"][line["verdict"]] = report["verdicts"].get(line["verdict"], 0) + 1
    out = pathlib.Path(options.out)
    out.with_suffix(".json").write_text(compact.text(report))
    text = as_text(report)
    out.with_suffix(".txt").write_text(text)
    print(text)
    return 1 if report["verdicts"].get("UNEXPLAINED") else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Problem, subprocess.SubprocessError, OSError) as problem:
        sys.exit(f"compare_instructions_with_ncu.py: {problem}")
