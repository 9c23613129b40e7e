"""Nobody gets a point who did not write the kernel, and nothing is left behind: attacks/FAMILY.toml lists attacks, each with words of the
sentence that its verdict must have.

  python3 attacks_test.py [-k WORD]      LADDER_BUILD_DIR says where the judge is

    [[attack]]
    name = "setrlimit"
    says = "for which a kernel has no use"
    exercise = "online_update"              this one if it is not said
    begin = "solved"                        what is changed: "solved" (if it is not said) or "start"
    changes = [["find", "replace"], …]      each is found once;  or, in place of both:  text = '''…'''
    repeated = [["FIND", "!", 200000], …]   and then this word is found once, and becomes so many of those
    unread = true                           nobody looks at what its functions do with addresses: what is behind that holds, too

Beside run_time.toml lies a program, which is tried as it is: those attacks are stopped by the sandbox, and not by who reads the file.
Some of each family are tried, and for `./ladder test --all` all: see share.py.
"""

import concurrent.futures
import dataclasses
import functools
import json
import os
import pathlib
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
ATTACKS = pathlib.Path(__file__).resolve().parent / "attacks"
sys.path[:0] = [str(ROOT / "common/classroom"), str(ROOT / "tests")]

import addresses  # noqa: E402
import exercises  # noqa: E402
import limits  # noqa: E402
import share  # noqa: E402
import workbench  # noqa: E402

KNOWN = exercises.read()
EXERCISE = exercises.find(KNOWN, "online_update")
LEFT_BEHIND = pathlib.Path("/tmp/ladder_attack_was_here")
MISSING = "\n".join(limits.not_enforced())


def read(family):
    return tomllib.loads((ATTACKS / f"{family}.toml").read_text())["attack"]


def said(verdict):
    return "\n".join([*verdict.report, *(line for check in verdict.checks for line in check.report)])


def processes(word):
    """Command lines with it, of everybody's processes."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if word in line:
            found.append(line)
    return found


def everything_below(folder):
    return sorted(str(path.relative_to(folder)) for path in pathlib.Path(folder).rglob("*"))


class Attacks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ladder-attacks-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        LEFT_BEHIND.unlink(missing_ok=True)

    def assert_earn_nothing(self, attacks, judged):
        """judged(attack) gives its verdict."""
        before = everything_below(self.folder)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
            for attack, verdict in zip(attacks, workers.map(judged, attacks)):
                with self.subTest(attack["name"]):
                    self.assertEqual(verdict.points, 0, said(verdict))
                    self.assertIn(attack["says"], said(verdict))
        self.assertEqual(processes(str(self.folder)), [])
        self.assertEqual(everything_below(self.folder), before)
        self.assertFalse(LEFT_BEHIND.exists())

    def built(self, source):
        """As workbench.py builds a learner's file, but nobody looks at it."""
        tools, program = workbench._toolchain(), self.folder / source.stem
        subprocess.run([tools["compiler"], *tools["options"], "-w", f"-I{ROOT / 'common/classroom/runner/shadow'}", f"-I{ROOT}", source,
                        tools["runner"], *tools["libraries"], "-o", program], check=True)
        return program

    def tried(self, program, numbers, trial_seconds):
        suite = {"problem": "attention", "tiles": [64, 64], "properties": ["one_tile"], "numbers": numbers}
        exercise = dataclasses.replace(EXERCISE, suite=suite, budgets=[], begins_with=[])
        return workbench.tried(exercise, pathlib.Path("kernel.cuh"), program, seed=7, trial_seconds=trial_seconds, jobs=1)

    def test_programs_that_run(self):
        attacks = [attack for attack in share.sample(read("run_time"))
                   if platform.machine() == "x86_64" or attack["name"] != "old_system_calls"]
        if "seccomp" in MISSING:
            attacks = [attack for attack in attacks if "asked for what no kernel" not in attack["says"]]
        program = self.built(ATTACKS / "run_time.cpp")
        self.assertEqual(self.tried(program, {}, 30).points, EXERCISE.points)  # the same program, were it not for the attack

        if "seccomp" not in MISSING:  # the others are for no machine but one that stops them
            self.assertEqual(self.tried(program, {"new_session": 1}, 30).points, 0)

        def judged(attack):
            return self.tried(program, {attack["name"]: 1}, 1 if "still running" in attack["says"] else 30)

        self.assert_earn_nothing(attacks, judged)

    def plain(self, body):
        """A program that has no sandbox, built of the body of its main()."""
        program = self.folder / "plain"
        subprocess.run([workbench._toolchain()["compiler"], "-x", "c++", "-o", program, "-"], check=True, text=True,
                       input=f"#include <sched.h>\n#include <signal.h>\n#include <unistd.h>\nint main() {{ {body} }}\n")
        return program

    def test_sleeping_takes_time(self):
        verdict = self.tried(self.plain("for (;;) pause();"), {}, 1)  # five seconds of the clock
        self.assertEqual(verdict.stage, "judged")
        self.assertIn("still running after 1 s", said(verdict))

    def test_waiting_for_a_processor_takes_none(self):
        crowd = """cpu_set_t here;
                   CPU_ZERO(&here);
                   CPU_SET(sched_getcpu(), &here);
                   sched_setaffinity(0, sizeof(here), &here);
                   for (int n = 0; n < 20 && fork() != 0; ++n) {}
                   for (;;) {}"""
        verdict = self.tried(self.plain(crowd), {}, 0.2)
        self.assertEqual((verdict.stage, verdict.points), ("not judged", 0), said(verdict))
        self.assertIn("it waited for a processor most of 3 s", said(verdict))

    def test_what_the_machine_ends_is_not_late(self):
        verdict = self.tried(self.plain("kill(getpid(), SIGKILL);"), {}, 1)
        self.assertEqual((verdict.stage, verdict.points), ("not judged", 0), said(verdict))

    @unittest.skipIf("seccomp" in MISSING, "this machine has no seccomp")
    def test_before_main(self):
        program = self.built(ATTACKS / "before_main.cpp")
        self.assert_earn_nothing([{"name": "before_main", "says": "asked for what no kernel has a use for"}],
                                 lambda _: self.tried(program, {}, 30))

    def test_files_that_are_read(self):
        """Families without a program: each attack is a learner's file."""
        for file in sorted(ATTACKS.glob("*.toml")):
            if file.with_suffix(".cpp").exists():
                continue
            attacks = share.sample(read(file.stem))
            with self.subTest(file.stem):
                self.assert_earn_nothing([one for one in attacks if not one.get("unread")], self.judged_as_a_file)
            with self.subTest(file.stem + ", unread"), unittest.mock.patch.object(addresses, "complaints", return_value=[]):
                self.assert_earn_nothing([one for one in attacks if one.get("unread")], self.judged_as_a_file)

    def judged_as_a_file(self, attack):
        exercise = exercises.find(KNOWN, attack.get("exercise", EXERCISE.name))
        text = attack.get("text")
        if text is None:
            text = exercise.starting_point() if attack.get("begin") == "start" else exercise.solved()
            for find, replace in attack["changes"]:
                self.assertEqual(text.count(find), 1, find)
                text = text.replace(find, replace)
        for find, piece, times in attack.get("repeated", []):
            self.assertEqual(text.count(find), 1, find)
            text = text.replace(find, piece * times)
        return workbench.judge(exercise, self.folder / attack["name"] / pathlib.Path(exercise.file).name, seed=7, text=text, jobs=1)


def a_pipe(file):
    os.mkfifo(file)


def a_device(file):
    file.symlink_to("/dev/zero")


def a_link(file):
    file.symlink_to("/etc/passwd")


def a_link_that_turns_in_circles(file):
    file.symlink_to(file.name)


def a_linked_folder(file):
    file.parent.rmdir()
    elsewhere = file.parent.with_name("elsewhere")
    elsewhere.mkdir()
    (elsewhere / file.name).write_text(EXERCISE.solved())
    file.parent.symlink_to("elsewhere")


def a_folder(file):
    file.mkdir()


def a_file_in_place_of_the_folder(file):
    file.parent.rmdir()
    file.parent.write_text(EXERCISE.solved())


def a_file_without_end(file):
    with file.open("wb") as content:
        content.truncate(1 << 40)


def a_long_comment(file):
    file.write_text(EXERCISE.solved() + "//" + "x" * (2 << 20))


def any_bytes(file):
    file.write_bytes(bytes(range(256)))


def zeros(file):
    file.write_bytes(bytes(1000))


def nothing(file):
    file.write_bytes(b"")


def a_terminal_escape(file):
    file.write_text('#error "\033]0;title\a\033[2J"\n')


def a_socket(file):
    import socket
    os.chdir(file.parent)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(file.name)
    os.chdir(ROOT)


FILES = [a_pipe, a_device, a_link, a_link_that_turns_in_circles, a_linked_folder, a_folder, a_file_in_place_of_the_folder, a_file_without_end,
         a_long_comment, any_bytes, zeros, nothing, a_terminal_escape, a_socket]
PROGRESS = [b"", b"{", b"[" * 100_000, b'{"current": {}, "exercises": []}', b"\xff\0", b"9" * 10_000]


SMALL = exercises.find(KNOWN, "striped")  # compiles in no time
NAMES = [b"new\nline", b"new\\u000aline", b"\xff", b"\\xff", b"-rf", b"--json", b"$(touch pwned)", b"%s%n", "\u202eada".encode(), b"\033[31mred",
         b'q"uote', b"a" * 255, b".hidden", b" ", b"tab\t", b"\xed\xa0\x80", b"<b>x", b"Ada", b"ada"]


def file_of(student, begin=False):
    file = student / SMALL.folder / pathlib.Path(SMALL.file).name
    if begin:
        file.parent.mkdir(parents=True)
    return file


def put(student, text=None):
    file_of(student, begin=True).write_text(SMALL.solved() if text is None else text)


def right(student):
    put(student)
    return ["judged"]


def out_of_the_class(student):
    student.symlink_to("/")
    return ["refused"]


def the_class_itself(student):
    student.symlink_to(".")
    return ["refused"]


def a_device_in_place_of_the_folder(student):
    student.symlink_to("/dev/zero")
    return ["refused"]


def somebody_elses_exercise(student):
    student.mkdir()
    (student / SMALL.folder).symlink_to(f"../right/{SMALL.folder}")
    return ["refused"]


def somebody_elses_file(student):
    file_of(student, begin=True).symlink_to(f"../../right/{SMALL.folder}/{pathlib.Path(SMALL.file).name}")
    return ["refused"]


def somebody_elses_lines(student):
    put(student, f'#include "{file_of(student.with_name("right"))}"\n')
    return ["refused"]


def a_pipe_for_an_exercise(student):
    student.mkdir()
    os.mkfifo(student / SMALL.folder)
    return ["refused"]


def the_grades_themselves(student):
    file_of(student, begin=True).symlink_to("../../../grades.json")
    return ["refused"]


def another_exercise_of_that_name(student):
    put(student, SMALL.starting_point())
    (student / "9.4_other").mkdir()
    (student / "9.4_other" / pathlib.Path(SMALL.file).name).write_text(SMALL.solved())
    return ["untouched"]


def a_workspace_inside(student):
    put(student / "workspace")
    return ["not handed in"]


def many_files(student):
    put(student, SMALL.starting_point())
    for number in range(20_000):
        (student / SMALL.folder / str(number)).touch()
    return ["untouched"]


def a_deep_folder(student):
    put(student, SMALL.starting_point())
    here = os.open(student, os.O_DIRECTORY)
    for _ in range(400):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    return ["untouched"]


def a_file_that_may_not_be_read(student):
    put(student, SMALL.starting_point())
    file_of(student).chmod(0)
    return ["untouched"] if os.geteuid() == 0 else ["refused"]


def a_folder_that_may_not_be_read(student):
    put(student, SMALL.starting_point())
    student.chmod(0)
    return ["untouched"] if os.geteuid() == 0 else ["refused"]


def progress(student, content):
    student.mkdir()
    (student / "progress.json").write_bytes(content)
    return ["not handed in"]


def progress_that_is_a_pipe(student):
    student.mkdir()
    os.mkfifo(student / "progress.json")
    return ["not handed in"]


def progress_without_end(student):
    student.mkdir()
    (student / "progress.json").symlink_to("/dev/zero")
    return ["not handed in"]


FOLDERS = {make.__name__: make for make in (
    right, out_of_the_class, the_class_itself, a_device_in_place_of_the_folder, somebody_elses_exercise, somebody_elses_file, somebody_elses_lines,
    a_pipe_for_an_exercise, the_grades_themselves, another_exercise_of_that_name, a_workspace_inside, many_files, a_deep_folder,
    a_file_that_may_not_be_read, a_folder_that_may_not_be_read, progress_that_is_a_pipe, progress_without_end)}
FOLDERS |= {f"progress_{number}": functools.partial(progress, content=content) for number, content in enumerate((
    b'{"a":' * 100_000 + b"1" + b"}" * 100_000, b'{"exercises": NaN}', b"1e999999", b"-" + b"9" * 1_000_000, b'{"current": 5, "exercises": {"striped": []}}',
    b'{"current": "\\ud800", "exercises": {"\\u001b[31m": {"started": "\\u001b[2J", "passed": "now", "points": 1000}}}'))}


def heed_signals():
    """Whoever runs the tests may ignore them, as nohup does."""
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.SIG_DFL)


def change_until(over, file):
    """A file that is something else at each look."""
    file.parent.mkdir(parents=True, exist_ok=True)
    while not over.is_set():
        for become in (lambda: file.write_text(SMALL.solved()), lambda: file.symlink_to("/etc/passwd"), file.mkdir, lambda: os.mkfifo(file),
                       lambda: file.write_bytes(b"x" * (2 << 20))):
            become()
            time.sleep(0.001)
            file.rmdir() if file.is_dir() and not file.is_symlink() else file.unlink()


class Submissions(unittest.TestCase):
    """A class, most of whom hand in something that is no kernel."""

    def test_everybody_has_a_result(self):
        with tempfile.TemporaryDirectory(prefix="ladder-attacks-") as folder:
            submissions, grades = pathlib.Path(folder) / "class", pathlib.Path(folder) / "grades.json"
            for number, attack in enumerate([*FILES, *PROGRESS]):
                name = attack.__name__ if callable(attack) else f"progress_{number}"
                file = submissions / name / EXERCISE.folder / pathlib.Path(EXERCISE.file).name
                file.parent.mkdir(parents=True)
                if callable(attack):
                    attack(file)
                else:
                    (submissions / name / "progress.json").write_bytes(attack)
            (submissions / "progress_folder" / "progress.json").mkdir(parents=True)
            honest = submissions / "h\udcffnest" / EXERCISE.folder / pathlib.Path(EXERCISE.file).name
            honest.parent.mkdir(parents=True)
            honest.write_text(EXERCISE.solved())
            marked = submissions / "marked" / EXERCISE.folder / pathlib.Path(EXERCISE.file).name
            marked.parent.mkdir(parents=True)
            marked.write_text(EXERCISE.solved(), encoding="utf-8-sig")
            (submissions / "linked").symlink_to("marked")
            (submissions / "a file").write_text(EXERCISE.solved())
            os.mkfifo(submissions / "pipe")
            run = subprocess.run([sys.executable, ROOT / "common/classroom/classroom.py", "grade", EXERCISE.id, "--class", submissions,
                                  "--seed", "7", "--json", grades], capture_output=True, timeout=600, env={**os.environ, "NO_COLOR": "1"})
            self.assertEqual(run.returncode, 1, run.stderr)
            self.assertNotIn(b"\033", run.stdout)
            students = {one["student"]: one for one in json.loads(grades.read_text())["students"]}
            self.assertEqual(students.pop("h\\xffnest")["points"], 70)
            self.assertEqual(students.pop("marked")["points"], 70)
            self.assertEqual(len(students), len(FILES) + len(PROGRESS) + 1 + len({"linked", "a file", "pipe"}))
            for name, one in students.items():
                with self.subTest(name):
                    self.assertEqual(one["points"], 0)
                    [exercise] = one["exercises"]
                    if name.startswith("progress"):
                        self.assertEqual(exercise["stage"], "not handed in")
                    else:
                        self.assertIn(exercise["stage"], ("refused", "not compiled"))
                        self.assertTrue(exercise["report"])
            self.assertEqual(processes(folder), [])

    def graded(self, submissions, *arguments):
        """(the running grader, the file that it writes)"""
        grades, temporary = submissions.with_name("grades.json"), submissions.with_name("temporary")
        temporary.mkdir()
        return subprocess.Popen([sys.executable, ROOT / "common/classroom/classroom.py", "grade", SMALL.id, "--class", submissions, "--seed", "7",
                                 "--json", grades, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env={**os.environ, "NO_COLOR": "1", "TMPDIR": str(temporary)}, preexec_fn=heed_signals), grades

    def test_folders_that_nobody_made_with_learn_start(self):
        with tempfile.TemporaryDirectory(prefix="ladder-attacks-") as folder:
            submissions = pathlib.Path(folder) / "class"
            submissions.mkdir()
            expected = {name: make(submissions / name) for name, make in FOLDERS.items()}
            for name in NAMES:
                at = os.path.join(os.fsencode(submissions), name, os.fsencode(SMALL.folder))
                os.makedirs(at)
                pathlib.Path(os.fsdecode(at), pathlib.Path(SMALL.file).name).write_text(SMALL.starting_point())
            changing = file_of(submissions / "changing")
            before = everything_below(submissions)
            over = threading.Event()
            changer = threading.Thread(target=change_until, args=(over, changing))
            changer.start()
            try:
                grader, grades = self.graded(submissions)
                out, errors = grader.communicate(timeout=900)
            finally:
                over.set()
                changer.join()
            self.assertEqual(grader.returncode, 1, errors)
            self.assertNotIn(b"\033", out)
            students = {one["student"]: one for one in json.loads(grades.read_text())["students"]}
            self.assertEqual(len(students), len(expected) + len(NAMES) + 1)
            self.assertEqual(len(students.pop("changing")["exercises"]), 1)
            for name, one in students.items():
                with self.subTest(name):
                    [exercise] = one["exercises"]
                    self.assertTrue(name.isprintable())
                    self.assertIn(exercise["stage"], expected.get(name, ["untouched"]))
                    self.assertEqual(one["points"], 30 if exercise["stage"] == "judged" else 0)
            self.assertEqual([path for path in everything_below(submissions) if not path.startswith("changing")],
                             [path for path in before if not path.startswith("changing")])
            self.assertEqual(processes(folder), [])
            self.assertEqual(everything_below(pathlib.Path(folder) / "temporary"), [])

    def test_who_ends_a_grading_keeps_what_was_judged(self):
        for end in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(end.name), tempfile.TemporaryDirectory(prefix="ladder-attacks-") as folder:
                submissions = pathlib.Path(folder) / "class"
                put(submissions / "ben", SMALL.solved().replace("return ", "for (volatile int n = 0; n < 1;) {}\n    return "))
                os.mkfifo(file_of(submissions / "ada", begin=True))
                grader, grades = self.graded(submissions)
                compiling = str(submissions / "ben")
                built_in = str(workbench._place(SMALL, file_of(submissions / "ben")))
                while grader.poll() is None and not processes(built_in):
                    time.sleep(0.1)
                grader.send_signal(end)
                _, errors = grader.communicate(timeout=60)
                self.assertEqual(grader.returncode, 130, errors)
                stages = {one["student"]: one["exercises"][0]["stage"] for one in json.loads(grades.read_text())["students"]}
                self.assertEqual(stages, {"ada": "refused", "ben": "not judged"})
                self.assertEqual(processes(folder), [])
                self.assertEqual(processes(built_in), [])
                self.assertFalse(os.path.exists(built_in))


if __name__ == "__main__":
    unittest.main()
