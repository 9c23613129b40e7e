"""The learner's files and how far they have come: workspace/, or LADDER_WORKSPACE."""

import datetime
import json
import os
import pathlib
import shutil

import exercises

FOLDER = pathlib.Path(os.environ.get("LADDER_WORKSPACE") or exercises.ROOT / "workspace")


class WorkspaceError(Exception):
    """What cannot be done with the learner's files, and what can."""


def _now():
    return datetime.datetime.now().astimezone().isoformat(timespec="seconds")


class Workspace:
    def __init__(self, folder=FOLDER):
        self.folder = pathlib.Path(folder)
        self.record = self.folder / "progress.json"
        try:
            self.progress = json.loads(self.record.read_text())
        except FileNotFoundError:
            self.progress = {"current": "", "exercises": {}}
        except (OSError, ValueError) as error:
            raise WorkspaceError(f"{self.record} cannot be read ({error}); move it away, your files stay") from error

    def file(self, exercise):
        return self.folder / exercise.folder / pathlib.Path(exercise.file).name

    def of(self, exercise):
        """What is remembered of it: started, hints, passed."""
        return self.progress["exercises"].get(exercise.name, {})

    def remember(self, exercise, **facts):
        self.progress["exercises"].setdefault(exercise.name, {}).update(facts)
        self.progress["current"] = exercise.name
        self.folder.mkdir(parents=True, exist_ok=True)
        half = self.record.with_suffix(".new")
        half.write_text(json.dumps(self.progress, indent=2) + "\n")
        half.replace(self.record)

    def current(self, known):
        return next((e for e in known if e.name == self.progress["current"]), None)

    def start(self, exercise):
        """Copies the starting point, which must not be there yet."""
        file = self.file(exercise)
        if file.exists():
            raise WorkspaceError(f"{exercise.id} is started already, in {file}; `./ladder learn reset {exercise.id}` begins anew")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(exercise.starting_point())
        self.remember(exercise, started=self.of(exercise).get("started") or _now())
        return file

    def reset(self, exercise):
        """Puts the starting point back, and what was there aside. Returns where it is kept, or None if nothing was there."""
        file, backup = self.file(exercise), None
        if file.exists():
            stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
            backup = file.with_name(f"{file.stem}.{stamp}{file.suffix}")
            while backup.exists():
                backup = backup.with_name("again." + backup.name)
            shutil.copy2(file, backup)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(exercise.starting_point())
        self.remember(exercise, started=self.of(exercise).get("started") or _now())
        return backup

    def passed(self, exercise):
        if not self.of(exercise).get("passed"):
            self.remember(exercise, passed=_now())
        else:
            self.remember(exercise)
