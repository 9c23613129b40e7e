"""What a learner's file does with addresses, by the compiler's own record: the functions as it understood them, with the type of every
expression (-fdump-tree-original-raw).

C++ lets a program turn addresses into numbers and numbers into addresses, count on from an address, and read one type's bytes as another's.
Whoever does that reaches memory which no tile counts: the variables of other threads, and the machine's own. A kernel needs none of it. It
names tensors, tiles and its own variables, and arrays are indexed within their bounds, which the compiler has watched (-fsanitize=bounds).

A record is a graph for each function. A node has a kind, and values by name, most of which are other nodes:

  @60     component_ref    type: @75      op 0: @76      op 1: @77

Texts stand in it as they are, whatever is in them, with their length behind them: _is_forged().
"""

import collections
import functools
import re

import limits

FUNCTION = re.compile(rb"\n;; Function (.*)")
BEGINS = b"\n;; enabled by -tree-original\n\n@1 "
LONG = re.compile(rb"lngt: (6[4-9]|[7-9]\d|\d{3,})\s")  # a text in which something could be written that looks like a record
NODE = re.compile(r"^(@\d+) +(\w+) *((?:.*\n(?: .*\n)*))", re.MULTILINE)
VALUE = re.compile(r"(op \d+|\w+) *: (@\d+|\S+)")

# What leads from an expression to its parts; the other values say what it is.
_PARTS = re.compile(r"op \d+|\d+|body|vars|chan|init|decl|expr|cond|fn|valu|val|clnp|hdlr|then|else|try|labl|bnds")
NO_PARTS = {"", "function_decl", "identifier_node", "type_decl", "namespace_decl", "field_decl", "const_decl", "template_decl"}
POINTERS = {"pointer_type": "ptd", "reference_type": "refd"}
CONVERSIONS = {"nop_expr", "convert_expr", "view_convert_expr", "non_lvalue_expr"}
ORDERS = {"lt_expr", "le_expr", "gt_expr", "ge_expr", "min_expr", "max_expr", "pointer_diff_expr", "minus_expr", "spaceship_expr"}
STEPS = {"preincrement_expr", "predecrement_expr", "postincrement_expr", "postdecrement_expr"}
CHANGES = {"modify_expr", "init_expr", "addr_expr", *STEPS}
HOLDERS = {"var_decl", "parm_decl", "component_ref", "array_ref", "indirect_ref", "call_expr", "aggr_init_expr"}

# Of the library's types those that take no memory of their own. Others may be part of an error that is thrown.
WITHOUT_MEMORY = {"array", "pair", "integral_constant", "integer_sequence", "type_identity", "initializer_list", "numeric_limits"}

INTO_NUMBERS = "an address as a number, or a number as an address"
COUNTED_ON = "an address that is counted on from another (arrays and tiles are indexed)"
ORDERED = "addresses that are compared or subtracted"
ANOTHER_TYPE = "somebody's memory, read as another type"
FOLLOWED = "a pointer that is followed (a reference, `T&`, does what a kernel needs)"
KEPT = "a reference or a lambda that a class keeps"
LEFT = "a reference or a lambda that is given back and may outlive what it refers to"
EVERYBODYS = "{}, which all threads share, as memory (a kernel reads it)"
HANDED_ON = "an address that is handed to {}"
CONTAINER = "a {} (memory of its own, which nobody counts or checks)"
NO_NUMBERS = "a tile, tensor or vector of what is no number ({})"

FORGED = "it has a long text or table of bytes that cannot be told from the compiler's record: shorten it"

NESTED = "it has something that is nested deeper than in any kernel"

LARGEST = 64 << 20  # bytes of the record of the file's own functions; those of a kernel take a tenth of it


@functools.cache
def _is_a_part(key):
    return _PARTS.fullmatch(key) is not None


class _Graph:
    """The record of one function."""

    def __init__(self, text):
        self.nodes, self.names = {}, []
        for name, kind, rest in NODE.findall(text):
            self.nodes[name] = (kind, dict(reversed(VALUE.findall(rest))))  # of two values by one name the first counts
            self.names.append(name)

    def is_whole(self):
        """Nodes are numbered one by one, and none is missing that another one names."""
        named = {value for kind, values in self.nodes.values() if kind != "string_cst" for value in values.values() if value[0] == "@"}
        return self.names == [f"@{n}" for n in range(1, len(self.names) + 1)] and named <= self.nodes.keys()

    def kind(self, node):
        return self.nodes[node][0] if node in self.nodes else ""

    def value(self, node, key):
        return self.nodes[node][1].get(key, "") if node in self.nodes else ""

    def type(self, node):
        return self.value(node, "type")

    def plain(self, type):
        """Without const, and by its own name."""
        return self.value(type, "unql") or type

    def called(self, node):
        """The name of a declaration or type."""
        name = self.value(node, "name")
        if self.kind(name) == "type_decl":
            name = self.value(name, "name")
        return self.value(name, "strg")

    def target(self, type):
        """What it points or refers to; "" for other types."""
        key = POINTERS.get(self.kind(type))
        return self.plain(self.value(type, key)) if key else ""

    def stripped(self, node):
        while self.kind(node) in CONVERSIONS:
            node = self.value(node, "op 0")
        return node

    def source(self, node):
        return self.value(node, "srcp").rpartition(":")

    def parts(self):
        """(node, whether it is part of an error that is thrown) for all that the function does."""
        waiting, seen = [("@1", False)], set()
        while waiting:
            node, thrown = waiting.pop()
            kind, values = self.nodes.get(node, ("", {}))
            if (node, thrown) in seen or kind in NO_PARTS or kind.endswith("_type"):
                continue
            seen.add((node, thrown))
            yield node, thrown
            thrown = thrown or kind == "throw_expr"
            waiting += [(value, thrown) for key, value in values.items() if value[0] == "@" and _is_a_part(key)]

    def function(self):
        """The declaration of the function itself; "" for one that has no variables and gives back nothing."""
        scopes = collections.Counter(self.value(node, "scpe") for node, _ in self.parts()
                                     if self.kind(node) in ("parm_decl", "var_decl", "result_decl", "label_decl"))
        return next((scope for scope, _ in scopes.most_common() if self.kind(scope) == "function_decl"), "")

    def namespaces(self, type):
        """Those in which a class lies, outermost last."""
        return self.namespaces_of(self.value(type, "name"))

    def namespaces_of(self, declaration):
        scope = self.value(declaration, "scpe")
        while scope:
            yield self.called(scope)
            scope = self.value(scope, "scpe") or self.value(self.value(scope, "name"), "scpe")

    def bases(self, type):
        """All classes of which it is one."""
        waiting, seen = [self.value(type, "binf")], set()
        while waiting:
            binf = waiting.pop()
            if binf not in seen:  # a virtual base is one of many
                seen.add(binf)
                yield self.plain(self.type(binf))
                waiting += [value for key, value in self.nodes.get(binf, ("", {}))[1].items() if self.kind(value) == "binfo"]

    def fields(self, type):
        field = self.value(type, "flds")
        while field:
            if self.kind(field) == "field_decl":
                yield self.type(field)
            field = self.value(field, "chan")


class _Function:
    """Looks at a function of the learner's file, and collects complaints about it."""

    def __init__(self, graph, file):
        self.graph, self.file = graph, file
        self.complaints, self.containers = [], {}

    def complain(self, words):
        self.complaints.append(words)

    def look(self):
        for node, thrown in self.graph.parts():
            if not thrown:
                self.look_at(node, self.graph.kind(node))

    def look_at(self, node, kind):
        graph, type = self.graph, self.graph.type(node)
        if kind in CONVERSIONS:
            self.look_at_conversion(node, type)
        elif kind == "pointer_plus_expr" and not self.is_the_compilers(graph.value(node, "op 0")):
            self.complain(COUNTED_ON)
        elif kind in STEPS and graph.kind(type) == "pointer_type" and not self.is_the_compilers(graph.value(node, "op 0")):
            self.complain(COUNTED_ON)
        elif kind in ORDERS and graph.kind(graph.type(graph.value(node, "op 0"))) == "pointer_type":
            self.complain(ORDERED)
        elif kind in ("indirect_ref", "mem_ref") and not self.may_be_followed(graph.value(node, "op 0")):
            self.complain(FOLLOWED)
        elif kind == "goto_expr" and graph.kind(graph.value(node, "labl")) != "label_decl":
            self.complain(FOLLOWED)
        elif kind == "bit_cast_expr":
            self.complain(ANOTHER_TYPE)
        if kind in HOLDERS and graph.kind(type) == "pointer_type" and not self.may_be_held(node, type):
            self.complain(FOLLOWED)
        if kind in CHANGES and (name := self.everybodys(graph.value(node, "op 0"))):
            self.complain(EVERYBODYS.format(name))
        if kind == "return_expr":
            self.look_at_return(graph.value(node, "expr"))
        if kind == "component_ref" and self.keeps_a_reference(type) and not self.is_a_capture(node):
            self.complain(KEPT)
        if kind in ("call_expr", "aggr_init_expr"):
            self.look_at_call(node)
        if kind in ("var_decl", "parm_decl", "call_expr", "aggr_init_expr") and (name := self.container(type)):
            self.complain(CONTAINER.format(name))

    def look_at_conversion(self, node, type):
        graph, operand = self.graph, self.graph.value(node, "op 0")
        from_type = graph.type(operand)
        if graph.kind(operand) == "statement_list" and graph.kind(graph.target(type)) == "array_type":
            return  # an array of classes, which begins here
        is_address, was_address = graph.kind(type) in POINTERS, graph.kind(from_type) in POINTERS
        if graph.kind(operand) == "void_cst" or graph.kind(type) == "void_type" or not (is_address or was_address):
            return
        if is_address and was_address:
            if not self.is_seen_as(graph.target(from_type), graph.target(type)):
                self.complain(ANOTHER_TYPE)
            if graph.kind(type) == "reference_type" and graph.kind(from_type) == "pointer_type" and not self.may_be_followed(operand):
                self.complain(FOLLOWED)
        elif not (is_address and (graph.value(operand, "int") == "0" or graph.kind(from_type) == "nullptr_type")
                  or graph.kind(type) == "boolean_type"):
            self.complain(INTO_NUMBERS)

    def look_at_return(self, node):
        graph, type = self.graph, self.graph.type(self.graph.value(node, "op 0"))
        has_captures = self.is_a_lambda(type) and graph.value(graph.value(type, "size"), "int") != "8"
        if has_captures or graph.kind(type) == "reference_type" and not self.was_given(graph.value(node, "op 1")):
            self.complain(LEFT)

    def was_given(self, address):
        """Whether an address, or a reference, is of something that the function was given, and that so is there when the function is over."""
        graph, kind = self.graph, self.graph.kind(address)
        if kind in CONVERSIONS:
            return self.was_given(graph.value(address, "op 0"))
        if kind == "cond_expr":
            return self.was_given(graph.value(address, "op 1")) and self.was_given(graph.value(address, "op 2"))
        if kind == "addr_expr":
            place = graph.value(address, "op 0")
            while graph.kind(place) in ("component_ref", "array_ref"):
                place = graph.value(place, "op 0")
            return graph.kind(place) == "indirect_ref" and self.was_given(graph.value(place, "op 0"))
        if kind == "call_expr":
            given = [value for key, value in graph.nodes[address][1].items() if key.isdigit() and graph.kind(graph.type(value)) in POINTERS]
            return all(map(self.was_given, given))
        return kind == "parm_decl" and graph.kind(graph.type(address)) in POINTERS

    def everybodys(self, place):
        """The name of a variable outside of all functions, of which this is a part and which is no constant; "" for others."""
        graph = self.graph
        while graph.kind(place) in ("component_ref", "array_ref", *CONVERSIONS):
            place = graph.value(place, "op 0")
        if graph.kind(place) != "var_decl" or graph.kind(graph.value(place, "scpe")) == "function_decl":
            return ""
        return "" if "c" in graph.value(graph.type(place), "qual") else graph.called(place)

    def is_a_lambda(self, type):
        return self.graph.called(type).startswith(("._anon", "__lambda", "<lambda"))

    def keeps_a_reference(self, type):
        """Whether a member of that type does, other than to a view."""
        graph = self.graph
        while graph.kind(type) == "array_type":
            type = graph.value(type, "elts")
        if graph.kind(type) == "reference_type":
            return "simt" not in graph.namespaces(graph.target(type))
        return self.is_a_lambda(type)

    def is_a_capture(self, node):
        return self.is_a_lambda(self.graph.type(self.graph.value(node, "op 0")))

    def look_at_call(self, node):
        """Others' functions may take what begins at an address, and go on from there."""
        graph, function = self.graph, self.graph.stripped(self.graph.value(node, "fn"))
        if function and graph.kind(function) != "addr_expr":
            self.complain(FOLLOWED)
        called = graph.value(function, "op 0")
        if name := self.container(graph.value(called, "scpe")):
            self.complain(CONTAINER.format(name))
        if graph.kind(called) == "function_decl" and graph.source(called)[0] != self.file:
            is_method = graph.kind(graph.type(called)) == "method_type"
            for key, argument in graph.nodes[node][1].items():
                type = graph.type(argument) if key.isdigit() and not (is_method and key == "0") else ""
                target = graph.target(type)
                if graph.kind(type) == "pointer_type" and graph.kind(target) != "function_type" and graph.called(target) != "char":
                    name = graph.called(called)
                    self.complain(HANDED_ON.format(graph.called(graph.value(called, "scpe")) if name.startswith("__") else name))

    def is_seen_as(self, old, new):
        """Whether what is `old` may be meant as `new`: a class as one of its bases, an array as its first element."""
        graph = self.graph
        if old == new or graph.kind(new) == "void_type" or graph.called(new) == "__as_base":
            return True
        if graph.kind(old) == "array_type":
            elements = graph.plain(graph.value(old, "elts"))
            if graph.kind(new) == "array_type":
                return elements == graph.plain(graph.value(new, "elts")) and graph.value(graph.value(old, "size"), "int") == graph.value(
                    graph.value(new, "size"), "int") or self.is_seen_as(elements, graph.plain(graph.value(new, "elts")))
            return elements == new
        return graph.kind(old) == "record_type" and new in graph.bases(old) and not self.is_a_lambda(new)

    def is_the_compilers(self, node):
        """Whether it is a variable of the compiler's own, in a loop over an array, or where an array of classes begins: they have no name, or
        one that nobody else may use. What a class or lambda calls itself is, too."""
        node = self.graph.stripped(node)
        name = self.graph.called(node)
        return name.startswith("__for_") or name in ("this", "__closure") or self.graph.kind(node) == "var_decl" and not name

    def may_be_followed(self, node):
        graph = self.graph
        while graph.kind(node) in CONVERSIONS and graph.kind(graph.type(node)) in POINTERS:
            if graph.kind(graph.type(node)) == "reference_type":
                return True  # which was looked at where it was made
            node = graph.value(node, "op 0")
        return (graph.kind(graph.type(node)) == "reference_type" or graph.kind(node) == "addr_expr" or self.is_the_compilers(node))

    def may_be_held(self, node, type):
        """Texts, kernels, what a launch is told, what has no type (such as a stream), where a loop over an array begins, and what the
        compiler itself holds."""
        graph = self.graph
        target = graph.target(type)
        called = graph.value(graph.stripped(graph.value(node, "fn")), "op 0")
        begins = (graph.called(graph.value(called, "scpe")) in WITHOUT_MEMORY
                  or graph.called(graph.type(graph.value(node, "op 0"))) == "initializer_list")
        return (self.is_the_compilers(node) or graph.kind(target) in ("void_type", "function_type")
                or graph.called(target) in ("char", "cudaLaunchAttribute") or begins)

    def container(self, type):
        """The name of a class of the library that it is, refers to or holds, and that takes memory; "" if there is none."""
        if type not in self.containers:
            self.containers[type] = self.found_container(type)
        return self.containers[type]

    def found_container(self, type):
        graph, waiting, seen = self.graph, [type], set()
        while waiting:
            type = waiting.pop()
            while graph.target(type) or graph.kind(type) == "array_type":
                type = graph.target(type) or graph.value(type, "elts")
            type = graph.plain(type)
            if type in seen or graph.kind(type) not in ("record_type", "union_type"):
                continue
            seen.add(type)
            if "std" in graph.namespaces(type):
                if (name := graph.called(type)) not in WITHOUT_MEMORY:
                    return f"std::{name}"
            elif graph.source(graph.value(type, "name"))[0] != self.file:
                continue
            waiting += reversed(list(graph.fields(type)))
        return ""


# Functions of the machine's views and shared memory are made for what lies in them.
OF_VIEWS = re.compile(r"simt::(?:cpu::)?(?:Ref|Shared\w+|PanelTile|GlobalTensor|Vector|WideVector|TensorMap|Accumulator|Fragment\w)\b")
ELEMENTS = re.compile(r"\b(?:T|V|Value|Element) = ([^;\]]*)")
NO_ELEMENT = re.compile(r"lambda|unnamed|[*&]|std::|simt::(?!(?:cpu::)?(?:f16|bf16|e4m3|e5m2|[a-z]+[234]|Vector|WideVector)\b)")


def _complaint_about_elements(function):
    """Classes may lie there, too: what they hold is looked at where it is used."""
    if OF_VIEWS.search(function.partition(" [with ")[0]):
        for element in ELEMENTS.findall(function.partition(" [with ")[2]):
            if NO_ELEMENT.search(element):
                return NO_NUMBERS.format(element)
    return None


NAMED = re.compile(r"\bladder::(?!classroom)")


def _is_forged(record, heads):
    """Whether a text passes itself off as something of the record: what stands between the last `strg:` and its length is then too short."""
    for length in LONG.finditer(record):
        text = record[record.rfind(b"strg: ", 0, length.start()) + len("strg: "):length.start()]
        if len(text[int(length[1]) - 1:].strip(b" \n")) > 1 or len(text) < int(length[1]):
            return True
    return not all(record.startswith(BEGINS, head.end()) for head in heads)


def complaints(record, file):
    """["it has …"] about the functions of a file, by its name without folders, in the compiler's record (bytes)."""
    found, own, size, looked_at = [], f": {file}:".encode(), 0, 0
    heads = list(FUNCTION.finditer(record))
    if _is_forged(record, heads):
        return [FORGED]
    for head, following in zip(heads, [*(one.start() for one in heads[1:]), len(record)]):
        function = head[1].decode(errors="replace").removesuffix(" (null)")
        if words := _complaint_about_elements(function):
            found.append(f"it has {words}, for which a kernel has no use")
        # One without variables may be anybody's who writes in this namespace.
        if record.find(own, head.end(), following) < 0 and not NAMED.search(function):
            continue
        size += following - head.end()
        if size > LARGEST:
            return ["its functions take longer to read than those of any kernel: is there a template without end?"]
        graph = _Graph(record[head.end():following].decode(errors="replace"))
        if not graph.is_whole():
            return [FORGED]
        declaration = graph.function()
        if (graph.source(declaration)[0] == file) if declaration else NAMED.search(function):
            looked_at += 1
            walker = _Function(graph, file)
            try:
                walker.look()
            except RecursionError:
                return [NESTED]
            line = graph.source(declaration)[2]
            place = f"line {line}: the function that begins here" if line else function
            found += [f"{place} has {words}, for which a kernel has no use" for words in walker.complaints]
    if not looked_at:
        raise limits.Starved("the compiler's record has no function of it: is the disk full?")
    return list(dict.fromkeys(found))
