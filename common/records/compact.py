"""JSON as people compare it: what fits a line stands on one, anything longer opens up, an element a line. compact.cpp beside this
file writes the same.

  python3 common/records/compact.py FILE…      rewrites files so
"""

import json
import pathlib
import sys

LINE_LENGTH = 1280


def _text(value, indent, first):
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, (dict, list)) or not value or (indent > 0 and first + len(line.encode()) <= LINE_LENGTH):
        return line
    keyed = ([(json.dumps(key, ensure_ascii=False) + ": ", item) for key, item in value.items()] if isinstance(value, dict)
             else [("", item) for item in value])
    margin = " " * (indent + 1)
    items = [margin + key + _text(item, indent + 1, len(margin) + len(key.encode())) for key, item in keyed]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return opening + "\n" + ",\n".join(items) + "\n" + " " * indent + closing


def text(value):
    return _text(value, 0, 0) + "\n"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        file = pathlib.Path(name)
        file.write_text(text(json.loads(file.read_text())))
