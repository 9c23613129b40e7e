"""What a hand-out's files show of what its exercises ask for; see given.py for what is asked for."""

import given

TEXTS = {".cuh", ".h", ".cpp", ".inc", ".md", ".py", ".json", ".txt", ".toml", ".cmake", ".html", ""}


def shown_by(exercise, text):
    """Whether a text shows what this exercise asks for, or a good part of it."""
    return any(given.shown(text, secret) for secret in given.secrets(exercise))


def give_away(chosen, texts_for):
    """{exercise: others whose answer its own files show}. `texts_for(exercise)`: what somebody gets to do it."""
    found = {}
    for exercise in chosen:
        texts = texts_for(exercise)
        if others := [other for other in chosen if other is not exercise and any(shown_by(other, text) for text in texts)]:
            found[exercise] = others
    return found


def sealed_until(shown):
    """{exercise: earlier ones}: an exercise waits for those before it whose answer it shows."""
    def place(exercise):
        return exercise.phase, exercise.number

    earlier = {exercise: [other for other in others if place(other) < place(exercise)] for exercise, others in shown.items()}
    return {exercise: others for exercise, others in earlier.items() if others}


def leaked(chosen, target):
    """[(exercise's number, file)] where a file that lies open in `target` shows the answer to an exercise. There should be none."""
    texts = {str(path.relative_to(target)): path.read_text(errors="replace").replace("\\n", "\n")
             for path in sorted(target.rglob("*")) if path.is_file() and path.suffix in TEXTS}
    return [(exercise.id, name) for exercise in chosen for name, text in texts.items() if shown_by(exercise, text)]
