"""What pages say of phase 5 in their own words, and the program knows: see common/pages/facts.py."""

import json

from facts import ROOT, Fact, grid, times_read

DEVICES = ("t4", "rtx5060ti", "rtx4090", "h200")


def splits(ladder, device, keys, dtype, kernel):
    """What the plan says for 8 KV heads, a group of four, one token and D = 128: blocks along x."""
    arguments = f"5 --profile {device} --heads 32 --kv-heads 8 --queries 1 --head-dim 128 --keys {keys} --dtype {dtype}"
    return str(grid(ladder, arguments, kernel)[0])


def plan(keys):
    return lambda ladder: [splits(ladder, device, keys, "f32", "decode_split_kernel") for device in DEVICES]


def shown_in_class(ladder):
    arguments = "3 5 --heads 32 --kv-heads 8 --keys 4096 --queries 1 --head-dim 128 --dtype f16"

    def blocks(kernel):
        x, y, z = grid(ladder, arguments, kernel)
        return str(x * y * z)

    return (blocks("fa2_forward_kernel"), times_read(ladder, arguments, "fa2_forward_kernel", "K"), blocks("decode_pipelined_kernel"),
            times_read(ladder, arguments, "decode_pipelined_kernel", "K"), blocks("decode_combine_kernel"))


def shares_of_the_plain_kernel(_):
    """The least and the most that decode.cuh reaches of a stream of reads, in per cent."""
    report = json.loads((ROOT / "docs/results/h200/bench.json").read_text())
    shares = [m["share_of_ceiling"] for case in report["cases"] if "headline" in case["sweeps"]
              for m in case["measurements"] if m["name"] == "flash_decode_plain"]
    return f"{100 * min(shares):.0f}", f"{100 * max(shares):.0f}"


FACTS = (
    Fact("docs/instructors.md", "phase 3 launches {} blocks and reads K {} times, phase 5 launches {} and reads it {} time, and {} more to merge",
         shown_in_class),
    Fact("phase5_decoding/README.md", "It fetches at {} to {} % of the speed of a kernel that only reads", shares_of_the_plain_kernel),
    Fact("phase5_decoding/README.md", "| 8, group 4 | 512 | {} | {} | {} | {} |", plan(512)),
    Fact("phase5_decoding/README.md", "| 8, group 4 | 4096 | {} | {} | {} | {} |", plan(4096)),
    Fact("phase5_decoding/README.md", "in float16 4096 keys on the `rtx4090` get {} splits",
         lambda ladder: [splits(ladder, "rtx4090", 4096, "f16", "decode_pipelined_kernel")]),
)
