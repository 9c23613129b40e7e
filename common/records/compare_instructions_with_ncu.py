"""Holds what the CPU machine counts of Hopper's instructions and of atomics against what Nsight Compute measures.

  python3 common/records/compare_instructions_with_ncu.py --out docs/results/h200/instructions    on a machine with a GPU and ncu

The cases are those of tests/simt/instruction_counts.cpp: copies by TMA, products of a warpgroup, stmatrix, atomics, a launch each.
compare_with_ncu.py beside this file does the same for the phases' kernels.

  --program PATH    (build/tests/simt/instruction_counts)
  --ncu PATH        Nsight Compute's ncu (from PATH, or from the usual places)
  --keep FOLDER     keep what was measured there, and measure every other counter that ncu has of these units, for some cases
  --seconds N       as long as there is time, with --keep (100)
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

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "common/records"))
from compare_with_ncu import Problem, read_ncu  # noqa: E402

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
    return {line.split()[0] for line in said.splitlines() if re.match(r"\w+__\w+\s", line) and " Counter " in line + " "} or \
           {line.split()[0] for line in said.splitlines() if re.match(r"\w+__\w+\s", line)}


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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/tests/simt/instruction_counts"))
    parser.add_argument("--ncu", default=shutil.which("ncu") or "/usr/local/cuda/bin/ncu")
    parser.add_argument("--out", required=True, metavar="FILE")
    parser.add_argument("--keep", metavar="FOLDER")
    parser.add_argument("--seconds", type=float, default=100)
    options = parser.parse_args()
    until = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(options.keep or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        cpu_file, cuda_file = folder / "cpu.json", folder / "cuda.json"
        subprocess.run([options.program, "--device", "cpu", "--json", str(cpu_file)], check=True)
        known = known_metrics(options.ncu, folder)
        wanted = [m for m in MEASURED if m in known] if known else MEASURED
        print("not known to this ncu: " + ", ".join(m for m in MEASURED if m not in wanted), flush=True)
        kernels = read_ncu(run_ncu(options, wanted, [], folder / "measured.csv", cuda_file))
        cases = json.loads(cpu_file.read_text())["cases"]
        if len(kernels) != len(cases):
            raise Problem(f"{len(cases)} cases ran on the CPU machine, and ncu saw {len(kernels)} kernels")
        report = [{**case, "ncu": kernel["metrics"], "kernel": kernel["kernel"]} for case, kernel in zip(cases, kernels)]
        pathlib.Path(options.out).with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
        if options.keep:
            look_around(options, known, folder, until)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Problem, subprocess.SubprocessError, OSError) as problem:
        sys.exit(f"compare_instructions_with_ncu.py: {problem}")
