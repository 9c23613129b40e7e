"""What pages say of phase 9 in their own words, and records know: see common/pages/facts.py."""

import json

from facts import ROOT, Fact


def record(name):
    return json.loads((ROOT / f"docs/results/h200x2/ring-{name}.json").read_text())


def time_and_share(name):
    """Milliseconds, three digits; and the share of the kernel's rate alone, in per cent."""
    def measured(_):
        method = record(name)["methods"][0]
        return f"{1e3 * method['seconds']:#.3g}", f"{100 * method['of_kernel_alone']:.0f}"
    return measured


def memory(_):
    """MiB beside the inputs, of one rank and of two."""
    return [f"{record(name)['methods'][0]['peak_bytes_of_a_rank'] / 2**20:.0f}" for name in ("one-rank", "none")]


CHAPTER = "phase9_ring/README.md"
FACTS = (
    Fact(CHAPTER, "| no mask | {} ms | {} % |", time_and_share("none")),
    Fact(CHAPTER, "| no mask, and keys travel before ranks compute | {} ms | {} % |", time_and_share("none-no-overlap")),
    Fact(CHAPTER, "| causal, contiguous parts | {} ms | {} % |", time_and_share("causal-contiguous")),
    Fact(CHAPTER, "| causal, zigzag parts | {} ms | {} % |", time_and_share("causal-zigzag")),
    Fact(CHAPTER, "| no mask, forward and backward | {} ms | {} % |", time_and_share("none-backward")),
    Fact(CHAPTER, "| causal, zigzag parts, forward and backward | {} ms | {} % |", time_and_share("causal-zigzag-backward")),
    Fact(CHAPTER, "a ring of one keeps {} MiB beside its inputs, and one of two {} MiB", memory),
)
