"""What a kernel may cost: expressions over its counters and the sizes of the problem.

    read["K"] <= B * Hkv * ceil_div(Sq, 64) * Sk * D * element

Known are the sizes of the trial (B, Hq, Hkv, Sq, Sk, D, element, …), read, written, sectors_read and sectors_written (a number
for each tensor, 0 for one that was not touched), total_read, total_written, barriers, blocks, launches, shared_bytes (of the
block that took most), wavefronts, wavefronts_ideal, and ceil_div, min, max.
"""

import ast
import collections
import operator

OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
             ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Lt: operator.lt, ast.LtE: operator.le,
             ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq}
FUNCTIONS = {"ceil_div": lambda a, b: -(-a // b), "min": min, "max": max}


class BudgetError(Exception):
    """An expression that cannot be worked out."""


def counters_of(launches):
    """Of all launches of a trial together."""
    counters = {name: collections.Counter() for name in ("read", "written", "sectors_read", "sectors_written")}
    for launch in launches:
        for tensor, traffic in launch["traffic"].items():
            for name, sums in counters.items():
                sums[tensor] += traffic[name]
    return {**counters, "total_read": counters["read"].total(), "total_written": counters["written"].total(),
            "barriers": sum(launch["barriers"] for launch in launches), "launches": len(launches),
            "blocks": sum(launch["blocks"] for launch in launches),
            "shared_bytes": max((launch["shared_bytes"] for launch in launches), default=0),
            "wavefronts": sum(launch["wavefronts"] for launch in launches),
            "wavefronts_ideal": sum(launch["wavefronts_ideal"] for launch in launches)}


def evaluate(expression, names):
    """Its value, where a name stands for what `names` says."""

    def value(node):
        match node:
            case ast.Expression():
                return value(node.body)
            case ast.Constant(value=int() | float() | str()):
                return node.value
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.Name(id=name):
                raise BudgetError(f'{expression}: "{name}" is not known; known: {", ".join(sorted(names))}')
            case ast.BinOp(op=op) if type(op) in OPERATORS:
                return OPERATORS[type(op)](value(node.left), value(node.right))
            case ast.BoolOp(op=ast.And()):
                return all(value(part) for part in node.values)
            case ast.BoolOp(op=ast.Or()):
                return any(value(part) for part in node.values)
            case ast.Compare(ops=[op], comparators=[right]) if type(op) in OPERATORS:
                return OPERATORS[type(op)](value(node.left), value(right))
            case ast.Subscript():
                return value(node.value)[value(node.slice)]
            case ast.Call(func=ast.Name(id=name), keywords=[]) if name in FUNCTIONS:
                return FUNCTIONS[name](*map(value, node.args))
        raise BudgetError(f"{expression}: {ast.unparse(node)} is not understood")

    try:
        return value(ast.parse(expression, mode="eval"))
    except SyntaxError as error:
        raise BudgetError(f"{expression}: {error}") from error


UNITS = {"read": "bytes", "written": "bytes", "total_read": "bytes", "total_written": "bytes", "shared_bytes": "bytes",
         "sectors_read": "sectors of 32 bytes", "sectors_written": "sectors of 32 bytes", "barriers": "barriers",
         "wavefronts": "wavefronts", "blocks": "blocks", "launches": "launches"}


def unit(expression):
    """What the left side of a comparison counts: "bytes"."""
    node = ast.parse(expression, mode="eval").body
    counted = [name.id for name in ast.walk(node.left) if isinstance(name, ast.Name) and name.id in UNITS]
    if not counted:
        raise BudgetError(f"{expression}: its left side counts none of {', '.join(UNITS)}")
    return UNITS[counted[0]]


def sides(expression, names):
    """The numbers left and right of the one comparison, for a report; None where there is no such pair."""
    node = ast.parse(expression, mode="eval").body
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return tuple(evaluate(ast.unparse(side), names) for side in (node.left, node.comparators[0]))
    return None
