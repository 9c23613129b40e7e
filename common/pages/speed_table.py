"""What the pages say about speed: made from docs/results/<gpu>/bench*.json, which ./ladder bench --json has written."""

import json
import os
import pathlib

PEERS = {"efficient": "memory-efficient", "torch": "torch::softmax", "fa2": "phase 3 without a mask"}
TENSOR_CORE_PEERS = ("flash", "cuDNN")
MULTIPLY = "TFLOP/s"
PLOTS = {"ladder.svg": "The ladder, each rung beside PyTorch's", "throughput.svg": "Speed over the length, in float32",
         "throughput_bf16.svg": "Speed over the length, in bfloat16", "decode.svg": "Speed of decoding over the length of the cache",
         "roofline.svg": "Each rung under the roofline"}
CEILINGS = {"gemm_f32": "GEMM", "gemm_bf16": "bf16 GEMM", "copy": "copy", "read": "read stream"}


def figure(value):
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def row(case, measurement):
    rate = f"{figure(measurement['rate'])} {case['unit']}"
    if not measurement["right"]:
        rate += ", **wrong**"
    share = measurement.get("share_of_ceiling")
    ceiling = f"{100 * share:.{0 if share >= 0.1 else 1}f} % of {CEILINGS[case['ceiling']]}" if share else "–"
    ratios = measurement["ratios"].items()
    beside = ", ".join(f"{PEERS.get(name, name)} {figure(times)}×" for name, times in ratios) or "–"
    return f"| {case['phase']} | {measurement['name']} | {case['problem']['text']} | {rate} | {ceiling} | {beside} |"


def shown(case, cases):
    """The headline cases, and those in bfloat16 of a phase whose headlines are all float32: it is what people use."""
    if "headline" in case["sweeps"]:
        return True
    headlines = [c["problem"]["text"] for c in cases if c["phase"] == case["phase"] and "headline" in c["sweeps"]]
    return "dtype" in case["sweeps"] and case["problem"]["text"].startswith("bf16") and not any(t.startswith("bf16") for t in headlines)


def in_16_bits(cases, shown_cases):
    """Rows for what PyTorch reaches on the problems that are shown in float32, when it is given bfloat16: what people use, and what a
    kernel without tensor cores is up against."""
    for text in dict.fromkeys(c["problem"]["text"] for c in shown_cases):
        twin = next((c for c in cases if c["problem"]["text"] == text.replace("f32", "bf16", 1)), None) if text.startswith("f32") else None
        for m in twin["measurements"] if twin and twin["unit"] == MULTIPLY else ():
            if m["role"] == "peer" and m["name"] in TENSOR_CORE_PEERS and "not_available" not in m:
                yield row({**twin, "phase": "–"}, {**m, "name": f"PyTorch, {m['name']}", "ratios": {}})


def table(report, phase):
    """Markdown for one report: where it was measured, and the cases that are shown, phase by phase or of one phase. Empty where it has
    none of them."""
    e = report["environment"]
    versions = [f"{name} {e[key]}" for name, key in
                (("driver", "driver"), ("CUDA", "cuda"), ("PyTorch", "torch"), ("cuDNN", "cudnn")) if e[key]]
    machine = f"the CPU machine as {e['device_name']} (a teaching machine)" if report["teaching_machine"] else f"one {e['device_name']}"
    lines = [f"On {machine}: {', '.join(versions)}; commit `{e['commit']}`, {e['date'][:10]}.", "",
             "| phase | kernel | work | speed | share of the ceiling | relative to PyTorch's kernels |",
             "|---|---|---|---|---|---|"]
    cases = [c for c in sorted(report["cases"], key=lambda c: c["phase"])
             if shown(c, report["cases"]) and phase in (None, c["phase"])]
    for case in cases:
        lines += [row(case, m) for m in case["measurements"] if m["role"] == "rung" and "not_available" not in m]
    lines += in_16_bits(report["cases"], cases)
    return "\n".join(lines) if len(lines) > 4 else ""


def section(root, page, phase=None):
    """Markdown for all reports under root/docs/results: every phase, and the charts of each device where there are some, or one phase's
    rows. Paths are relative to the page. Empty without any report."""
    parts = []
    for folder in sorted(pathlib.Path(root).glob("docs/results/*/")):
        reports = sorted(folder.glob("bench*.json"), key=lambda file: file.stem)
        parts += [found for file in reports if (found := table(json.loads(file.read_text()), phase))]
        if phase is None and reports:
            parts += [f"![{alternative}]({os.path.relpath(folder / name, pathlib.Path(page).parent)})"
                      for name, alternative in PLOTS.items() if (folder / name).exists()]
    return "\n\n".join(parts)
