"""What tells the kernel that an exercise asks for from another way to the same numbers. It is counted under the judge's names, which
are the only ones that reach a tensor's memory; whoever misses it on a problem that came out right gets nothing for the exercise.

A floor is what the algorithm must read, with room for tiles twice as large as the exercise's; a ceiling is far above what any kernel
with tiles reads, so that one without them does not pass. Budgets (budgets.py) are narrower, and cost points and not the exercise.
"""

import budgets

ROOM = 8  # times the reads of the kernel itself may another one need

# By the kind of problem: what of each tensor is read once by the algorithm, and how many launches there are.
LAUNCHES = {"attention": "1", "softmax": "1", "merge": "1", "ring_merge": "P", "decode": "1 + (splits > 1)", "backward": "3"}


def _reads(exercise):
    """{tensor: (least, most)} as expressions."""
    kind, tiles = exercise.suite["problem"], exercise.suite.get("tiles", [1, 1])
    queries = "B * Hq * Sq * D * element"
    match kind:
        case "attention" if exercise.suite.get("keys_outside"):
            keys = "B * Hq * Sk * D * element"
            steps = f"{queries} * ceil_div(Sk, {tiles[1]})"
            return {"Q": (f"max({queries}, {steps} / 2)", steps), "K": (keys, keys), "V": (keys, keys)}
        case "attention":
            keys = "B * Hq * tile_keys * D * element"
            return {"Q": (f"{queries} * (tile_keys > 0)", f"{queries} * ceil_div(Sk, {tiles[1]})"), "K": (f"{keys} / 2", keys),
                    "V": (f"{keys} / 2", keys)}
        case "softmax":
            return {"x": ("rows * N * element", "4 * rows * N * element")}
        case "decode":
            keys = "keys * Hkv * D * element"
            return {"K": (keys, keys), "V": (keys, keys)}
        case "merge":
            return {"O_part": ("0", "4 * P * N * D"), "LSE_part": ("4 * P * N", "4 * P * N * 32 * ceil_div(D, 32)")}
        case "backward":
            keys = "B * Hkv * Sk * D * element"
            steps = f"{queries} * max(5, ceil_div(Sk, 64))"  # five: a warp whose lanes all read the row for D is slow, and no cheat
            return {"Q": (queries, steps), "dO": (queries, steps),
                    "K": (keys, f"B * Hq * Sk * D * element * ceil_div(Sq, 64)")}
    return {}


def expressions(exercise):
    """[(in words, expression)] that hold on every problem that the right kernel solves."""
    launches = exercise.launches or LAUNCHES.get(exercise.suite["problem"])
    if not launches:
        return []  # no kernel is run
    rules = [("launches that are recorded", f"launches == {launches}")]
    for tensor, (least, most) in _reads(exercise).items():
        rules.append((f"bytes of {tensor} read through its views", f'read["{tensor}"] >= {least}'))
        rules.append((f"bytes of {tensor} read through its views", f'read["{tensor}"] <= {ROOM} * {most}'))
    if exercise.suite["problem"] == "softmax":  # an array in a thread can keep a row, too, and nobody counts it
        kept = "2 * rows * ceil_div(N * element, 128)"
        rules.append(("passes through shared memory, for a row that is read once,", f'wavefronts >= (read["x"] < 2 * rows * N * element) * {kept}'))
    if "tiles" in exercise.suite and "SharedArena" in exercise.starting_point():
        rules.append(("passes through shared memory", "wavefronts >= 1"))
    return rules


ASKED = {">=": "at least", "<=": "at most", "==": "exactly"}


def missed(exercise, trial):
    """What this problem, which came out right, shows: lines, or None."""
    names = {**trial["sizes"], **budgets.counters_of(trial["launches"])}
    for words, expression in expressions(exercise):
        if not budgets.evaluate(expression, names):
            counted, asked = budgets.sides(expression, names)
            relation = ASKED[expression.split()[1]]
            return [f"{trial['trial']}: {counted:,} {words}, where the kernel that this exercise asks for has {relation} {int(asked):,}",
                    "the results may be right, and yet they did not come out of that kernel: so they earn nothing"]
    return None
