"""A hand-out on a Debian 12 that has nothing yet: what .devcontainer/ and the workflow run works there, and so does a first check.

Takes minutes and a network, so it runs where LADDER_TEST_ALL is set, and is in the first of its parts; it needs root and debootstrap.
"""

import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import share  # noqa: E402

SYSTEM = os.environ.get("LADDER_BARE_DEBIAN", "")  # a debootstrapped folder, of which a copy is used; made if not given
MOST_SECONDS = 180  # to the first check, with two cores


def processor_seconds():
    """What everything has had that was started here, and has ended: the clock would tell of other programs, too."""
    had = resource.getrusage(resource.RUSAGE_CHILDREN)
    return had.ru_utime + had.ru_stime


def not_run():
    if not os.environ.get("LADDER_TEST_ALL"):
        return "`./ladder test --all` runs it: it takes minutes and a network"
    if not share.of([main]):
        return f"it is not in part {os.environ['LADDER_TEST_ALL']} of what --all tries"
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        return "it needs root and debootstrap"
    return ""


def commands_of(hand_out):
    """What opens the folder, and what grades it."""
    container = json.loads((hand_out / ".devcontainer/devcontainer.json").read_text())
    workflow = (hand_out / ".github/workflows/classroom.yml").read_text()
    return [container["postCreateCommand"], *re.findall(r"- run: (.+)", workflow), *re.findall(r"command: ([^,]+),", workflow)[:1]]


def main():
    if reason := not_run():
        print(f"NOT RUN: bare_debian: {reason}")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        system, hand_out = pathlib.Path(folder) / "system", pathlib.Path(folder) / "system/root/handout"
        if SYSTEM:
            subprocess.run(["cp", "-a", SYSTEM, system], check=True)
        else:
            subprocess.run(["debootstrap", "--variant=minbase", "bookworm", system], check=True, stdout=subprocess.DEVNULL)
        shutil.copy("/etc/resolv.conf", system / "etc/resolv.conf")
        subprocess.run([sys.executable, ROOT / "common/classroom/classroom.py", "student-copy", hand_out], check=True)

        def run(command, codes=(0,)):
            begun = time.monotonic()
            # No process numbers and no network of its own: apt needs the latter.
            said = subprocess.run(["unshare", "--mount", "--pid", "--fork", "sh", "-c",
                                   f"mount -t proc proc {system}/proc; mount --bind /dev {system}/dev; exec chroot {system} env -i "
                                   f"PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root sh -c 'cd /root/handout && {command}'"],
                                  capture_output=True, text=True, timeout=1500)
            print(f"{time.monotonic() - begun:4.0f} s  {command}", flush=True)
            assert said.returncode in codes, said.stdout + said.stderr
            return said.stdout

        begun, had = time.monotonic(), processor_seconds()
        opens, *grades = commands_of(hand_out)
        run(opens)
        run("./ladder learn start 3.1")
        said = run("./ladder learn check", codes=(1,))
        assert "Nothing is changed yet" in said, said
        had = processor_seconds() - had
        print(f"{time.monotonic() - begun:4.0f} s  to the first check, {had:.0f} s of a processor")
        assert had <= 2 * MOST_SECONDS, f"two cores need more than {MOST_SECONDS} s for that"
        for command in grades:
            run(command, codes=(0, 1))  # 1: points are missing
        run("./ladder doctor")
    return 0


if __name__ == "__main__":
    sys.exit(main())
