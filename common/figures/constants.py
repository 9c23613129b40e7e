"""Reads the numbers that figures show from the C++ sources, so that no figure can say what the code no longer does."""

import ast
import dataclasses
import functools
import operator
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]

_OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.floordiv,
               ast.Mod: operator.mod, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
               ast.GtE: operator.ge, ast.Eq: operator.eq}


class Missing(Exception):
    """A source no longer has what a figure shows."""


def _evaluate(node, value_of):
    match node:
        case ast.Constant(value=int() | float()):
            return node.value
        case ast.Name(id=name):
            return value_of(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand, value_of)
        case ast.BinOp(left=left, op=op, right=right) | ast.Compare(left=left, ops=[op], comparators=[right]):
            return _OPERATIONS[type(op)](_evaluate(left, value_of), _evaluate(right, value_of))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _evaluate(body if _evaluate(test, value_of) else orelse, value_of)
        case ast.Call(func=ast.Name(id="int"), args=[argument]):
            return int(_evaluate(argument, value_of))
    raise Missing(f"{ast.unparse(node)} is more than this reader understands")


def _as_python(expression):
    """C++'s `a ? b : c`, nested to the right, as Python's `b if a else (c)`."""
    expression = re.sub(r"/\*.*?\*/|//[^\n]*", "", expression).strip()
    if "?" not in expression:
        return expression
    test, rest = expression.split("?", 1)
    body, orelse = rest.split(":", 1)
    return f"({body.strip()}) if ({test.strip()}) else ({_as_python(orelse)})"


class Source:
    """One C++ file. `known` gives the values of names that the file leaves open, such as D=64 or element_bytes=2."""

    def __init__(self, path):
        self.path = path
        self.text = (ROOT / path).read_text()

    def number(self, name, within=None, **known):
        """The value of `name = expression`, in the whole file or in what `within` opens (a struct or a function)."""
        text = self.body(within) if within else self.text
        return self._value(rf"\b{name}\s*=\s*([^;,{{}}]+)[;,}}]", text, name, known, within)

    def found(self, pattern, **known):
        """The value of the expression in the one group of a regular expression, which must match once."""
        return self._value(pattern, self.text, f"match of {pattern}", known)

    def expect(self, *lines):
        """Insists that the file still says what the caller repeats in Python; returns itself."""
        text = " ".join(self.text.split())
        for line in lines:
            if " ".join(line.split()) not in text:
                raise Missing(f'{self.path} no longer says "{line}"; a figure computes the same and has to follow')
        return self

    def body(self, within):
        """From the first mention of `within` that opens a brace to the brace at the start of a line that closes it."""
        match = re.search(rf"\b{re.escape(within)}\b[^;{{}}]*{{.*?(?:}}\n|\n}})", self.text, re.DOTALL)
        if not match:
            raise Missing(f"{self.path} has no {within}; a figure takes numbers from it")
        return match.group(0)

    def _value(self, pattern, text, what, known, within=None):
        expressions = set(re.findall(pattern, text))
        where = f"{self.path}, {within}" if within else self.path
        if len(expressions) != 1:
            raise Missing(f"{where}: a figure shows {what}, which has {len(expressions)} definitions there, not one")
        # What a template is given counts as a name too.
        expression = expressions.pop().replace("simt::", "").replace("sizeof(T)", "element_bytes").replace("<T>", "")

        def value_of(name):
            if name in known:
                return known[name]
            if name == "kVectorWidth":
                return Source("common/simt/language/vector.h").number("kVectorWidth", **known)
            return self.number(name, **known)

        try:
            return _evaluate(ast.parse(_as_python(expression), mode="eval").body, value_of)
        except SyntaxError:
            raise Missing(f"{where}: {what} = {expression} is more than this reader understands") from None


@dataclasses.dataclass(frozen=True)
class Device:
    """Some of a device profile, common/simt/device/device_profile.h."""
    product: str
    multiprocessors: int
    block_bytes: int           # shared memory of a block that does not ask for more
    block_bytes_optin: int
    multiprocessor_bytes: int  # shared memory of a multiprocessor
    reserved_bytes: int        # of it, for each block, by CUDA for itself
    registers: int             # of 4 bytes, of one multiprocessor
    bandwidth_gb_s: float
    l2_bytes: int


@functools.cache
def device(name):
    profiles = Source("common/simt/device/device_profile.cpp")
    entry = re.search(rf'profile\((kCc\d+), {{\.name = "{name}",(.*?)}}\)', profiles.text, re.DOTALL)
    if not entry:
        raise Missing(f"{profiles.path} has no profile {name}")
    capability, fields = entry.groups()

    def field(key):
        value = re.search(rf"\.{key} = ([^,\n]+)", fields)
        if not value:
            raise Missing(f"{profiles.path}: {name} has no {key}")
        return value.group(1)

    order = re.findall(r"(\w+);", profiles.body("struct Capability"))
    row = re.search(rf"{capability}\s*= {{(.*?)}};", profiles.text)
    if not row:
        raise Missing(f"{profiles.path} has no {capability}")
    limits = dict(zip(order, (value.strip() for value in row.group(1).split(",")), strict=True))
    kib, mib = profiles.number("kKiB"), profiles.number("kMiB")
    return Device(product=field("product").strip('"').removeprefix("NVIDIA ").removeprefix("GeForce "),
                  multiprocessors=int(field("multiprocessors")),
                  block_bytes=profiles.number("shared_bytes_per_block"),
                  block_bytes_optin=int(limits["shared_kib_per_block_optin"]) * kib,
                  multiprocessor_bytes=int(limits["shared_kib_per_multiprocessor"]) * kib,
                  reserved_bytes=kib if limits["reserved_shared_bytes_per_block"] == "kKiB" else 0,
                  registers=profiles.number("registers_per_multiprocessor"),
                  bandwidth_gb_s=float(field("memory_bandwidth_gb_s")),
                  l2_bytes=int(field("l2_bytes").removesuffix(" * kMiB")) * mib)


def default_device():
    """The device that the CPU machine imitates when nobody says otherwise."""
    name = re.search(r'kDefaultProfile = "(\w+)"', Source("common/simt/device/device.h").text)
    if not name:
        raise Missing("common/simt/device/device.h has no kDefaultProfile")
    return device(name.group(1))


WARP = Source("common/simt/device/device_profile.h").number("warp_size")

_request = Source("common/simt/counters/request_cost.cpp")
BANKS, BANK_BYTES, SECTOR_BYTES = (_request.number(name) for name in ("kBanks", "kBankBytes", "kSectorBytes"))

LANES_PER_ROW = Source("common/attention/row_tile.cuh").number("lanes_per_row")
