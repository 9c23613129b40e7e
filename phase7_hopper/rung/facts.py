"""What pages say of phase 7 in their own words, and the program knows: see common/pages/facts.py."""

import re

from facts import Fact, launch

PROBLEM = "--keys 256 --heads 1 --no-causal"


def passes(ladder, arguments, kernel):
    """Through shared memory, as the profile counts them."""
    return next(found[1] for line in launch(ladder, arguments, kernel) if (found := re.search(r"in (\d+) wavefronts", line)))


def of_the_lesson(ladder):
    return [passes(ladder, f"7 {PROBLEM} --profile h100", "hopper_kernel")]


def of_phase_6(ladder):
    return [passes(ladder, f"6 {PROBLEM}", kernel) for kernel in ("mma_kernel", "mma_pipelined_kernel")]


FACTS = (
    Fact("phase7_hopper/README.md", "2560 + 4 · 64 = **{}** together", of_the_lesson),
    Fact("phase7_hopper/README.md", "Phase 6's first kernel took {} for the same problem, and its second {}.", of_phase_6),
    Fact("docs/instructors.md", "after the class has predicted {} passes from eight rows in the same banks, and {} without",
         lambda ladder: [f"{int(n):,}" for n in of_phase_6(ladder)]),
)
