"""The figure of the CPU machine: how it sees a race."""

from constants import LANES_PER_ROW, Source
from draw import MARGIN, WIDTH, Figure
from phase3 import FA2


def machine():
    threads, D, key, column = FA2.number("kFa2Threads"), 32, 12, 24
    Source("common/attention/copy_tile.cuh").expect("r = i / per_row, c = i % per_row * simt::kVectorWidth<T>;")
    Source("common/attention/row_tile.cuh").expect("return (vector * Lanes + lane) * kRowVector<T, D, Lanes>;")
    vector = Source("common/simt/language/vector.h").number("kVectorWidth", element_bytes=4)
    writer = (key * D + column) // vector % threads       # copy_tile: neighbouring threads copy neighbouring vectors
    reader = writer + (column // vector - writer) % LANES_PER_ROW  # a thread that owns the column, output_column
    if reader == writer:
        reader += LANES_PER_ROW
    figure = Figure(
        "How the CPU machine sees a race",
        f"A worker runs the {threads} threads of a block in turn, each to the next barrier. A shadow remembers for "
        f"every element who wrote it and in which interval between barriers. Thread {writer} writes an element and "
        f"thread {reader} reads it: in the same interval that is a race, after a barrier it is not.")
    whole = WIDTH - 2 * MARGIN
    figure.text(MARGIN, 34, "One worker runs a block's threads in turn, each to the next barrier")

    def turns(x, w, y, interval, marked):
        """The threads of one interval; `marked` maps some to the colour of what they do. Returns where those lie."""
        names = ["0", "1", "…", str(writer), "…", str(reader), "…", str(threads - 1)]
        units = [0.7, 0.7, 0.6, 1, 0.6, 1, 0.6, 1]
        at, where = x, {}
        for name, unit in zip(names, units):
            width = w * unit / sum(units)
            colour = marked.get(name)
            figure.rect(at, y, width - 3, 34, fill=f"{colour}" if colour else "plain", line=colour, round_=3, width=2)
            figure.text(at + width / 2 - 1, y + 23, name, size=16, anchor="middle",
                        colour="ink" if colour else "quiet", bold=bool(colour))
            where[name] = at + width / 2 - 1
            at += width
        figure.text(x + w / 2, y - 9, f"interval {interval}", size=16, colour="quiet", anchor="middle")
        return where

    half = (whole - 40) / 2
    w, r = str(writer), str(reader)
    for y, title, barrier in ((64, "No barrier between", False), (306, "A barrier between", True)):
        figure.text(MARGIN, y + 6, title, bold=True, colour="ink" if barrier else "wrong")
        y += 46
        if barrier:
            write = turns(MARGIN, half, y, 7, {w: "v"})[w]
            read = turns(MARGIN + half + 40, half, y, 8, {r: "v"})[r]
            middle = MARGIN + half + 20 - 1.5
            figure.line((middle, y - 22), (middle, y + 46), line="quiet", width=2.5, dash="8 5")
            figure.text(middle, y + 66, "`__syncthreads()`", size=15, colour="quiet", anchor="middle")
        else:
            where = turns(MARGIN, whole, y, 7, {w: "v", r: "wrong"})
            write, read = where[w], where[r]
        cell = y + 92
        figure.arrow((write, y + 38), (write, cell - 4), line="v")
        figure.arrow((read, cell - 4), (read, y + 38), line="v" if barrier else "wrong")
        figure.text(write - 10, y + 66, "writes", size=16, colour="v", anchor="end")
        figure.text(read + 12, y + 66, "reads", size=16, colour="v" if barrier else "wrong")
        figure.rect(MARGIN, cell, whole, 62, fill="v", line="v", round_=6)
        figure.text(MARGIN + 16, cell + 26, f"V_j({key}, {column})", bold=True)
        figure.text(MARGIN + 16, cell + 49, f"shadow: thread {writer} wrote, interval 7", size=16)
        verdict = "8 comes after 7: in order" if barrier else "read in 7 too: a race"
        figure.text(WIDTH - MARGIN - 16, cell + 26, verdict, bold=True, anchor="end",
                    colour="v" if barrier else "wrong")
    return figure


FIGURES = {"machine": machine}
