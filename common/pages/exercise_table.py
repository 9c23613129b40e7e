"""What the pages say about exercises: made from phase*/exercises/exercises.toml. The format: common/classroom/README.md."""

import os
import pathlib
import tomllib


def of_phase(folder):
    """The exercises of a phase's folder, in order; None where it has no exercises.toml."""
    file = pathlib.Path(folder) / "exercises/exercises.toml"
    return tomllib.loads(file.read_text()).get("exercise", []) if file.is_file() else None


def minutes(folder):
    """What the exercises of a phase's folder take together; None where it has no exercises.toml."""
    exercises = of_phase(folder)
    return None if exercises is None else sum(exercise["minutes"] for exercise in exercises)


def table(root, page, phase=None):
    """Markdown for the exercises of one phase, or of all, whose titles then lead to the page of their phase. Paths are relative
    to the page. Empty where there is no exercise."""
    rows = []
    for folder in sorted(pathlib.Path(root).glob(f"phase{'*' if phase is None else phase}_*")):
        number = folder.name.removeprefix("phase").split("_")[0]
        link = os.path.relpath(folder / "exercises/README.md", pathlib.Path(page).parent)
        for place, exercise in enumerate(of_phase(folder) or [], 1):
            title = f"[{exercise['title']}]({link})" if phase is None else exercise["title"]
            rows.append(f"| {number}.{place} | {exercise['kind']} | {exercise['minutes']} | {title} |")
    return "\n".join(["| exercise | kind | minutes | title |", "|---|---|---:|---|", *rows]) if rows else ""
