"""What a learner's file may use. A kernel needs the machine, its tensors and mathematics, and has no use for anything else:
a file that reaches further is not run, and the learner is told why.

Nothing here reads C++ for itself. Four records of the compiler's are held against what a kernel needs:

  the words      the preprocessor's own lexer takes comments away and leaves directives alone: complaints_about_text()
  the files      what was opened while the file was compiled: complaints_about_files()
  the object     its symbols and sections: complaints_about_object()
  the functions  what they do with addresses: addresses.py
"""

import collections
import dataclasses
import difflib
import functools
import itertools
import re
import secrets

import cuda_words
import limits

LEX_SECONDS = 20

STANDARD_HEADERS = {"algorithm", "array", "bit", "cmath", "cstddef", "cstdint", "cstdio", "limits", "stdexcept", "string", "type_traits",
                    "utility"}

# --- The words -----------------------------------------------------------------------------------------------------------------

# What kernels, and those who launch them, use of the machine. Everything else is its inside.
MACHINE = set("""
    Accumulator AccumulatorLayout CopyCache ElementType Feature FragmentA FragmentB FragmentC GlobalTensor OperandA Order
    PanelTile Reuse RingPosition SharedArena SharedBarriers SharedMatrix SharedTile Swizzle TensorArgument TensorMap Vector WideVector
    all_same arrive_threads atomic_add atomic_compare_exchange atomic_exchange atomic_max atomic_min begin_products bf16 bulk_add bulk_load
    claim_registers commit_copies commit_products commit_stores copy_async copy_async_or_zero current_device e4m3 e5m2 element_bytes
    elect_one f16 fast_exp2 fence fence_block finish_before_wait global_tensor k_major kVectorWidth kWarpgroup launch ldmatrix ldmatrix_trans
    let_next_kernel_start load_acquire load_relaxed mma_m16n8k16 mn_major multiply pack panel_bytes prefetch_map publish_barriers read
    reduce_add release_registers same_in_warp shared_bytes show_to_async stmatrix store_relaxed store_release sync_threads tile_map tma_add
    tma_load tma_store to_a to_operand wait_all_copies wait_copies wait_for_previous_kernel wait_products wait_stores wait_stores_read watch
    write""".split())

# Of the names that C++ keeps for compilers and libraries, those that CUDA has, and the machine too.
RESERVED = set("""
    __device__ __host__ __global__ __forceinline__ __grid_constant__ __align__ __restrict__ __launch_bounds__
    __syncthreads __syncthreads_or __syncthreads_and __syncthreads_count __syncwarp __shfl_sync __shfl_up_sync __shfl_down_sync
    __shfl_xor_sync __ballot_sync __any_sync __all_sync __expf __logf __fdividef __fmul_rn __float_as_uint __uint_as_float
    __float_as_int __int_as_float __popc __ffs __clz""".split())
CUDA = {"cudaLaunchConfig_t", "cudaLaunchAttribute", "cudaLaunchAttributeProgrammaticStreamSerialization",
        "cudaLaunchAttributeClusterDimension", "cudaStream_t"}

# What kernels use of `std`: nothing that takes memory of its own, or that reads one type's bytes as another's.
STANDARD_NAMES = re.compile(r"""
    (u?int(8|16|32|64)|size|ptrdiff|nullptr)_t | numeric_limits | array | pair | get | tuple_size(_v)? | printf | puts | putchar |
    f?abs | f(mod|ma|max|min|dim) | remainder | exp(2|m1)? | log(2|10|1p)? | pow | sqrt | cbrt | hypot | a?(sin|cos|tan)h? | atan2 | erfc? |
    ceil | floor | trunc | l?l?r(ound|int) | nearbyint | ldexp | scalbn | copysign | lerp | is(finite|inf|nan) | signbit |
    bit_(ceil|floor|width) | count[lr]_(zero|one) | popcount | has_single_bit | rot[lr] |
    min | max | minmax | clamp | swap | exchange | move | forward | size |
    is_\w+ | (remove_\w+|decay|conditional|enable_if|common_type|make_(un)?signed|invoke_result|type_identity|void)(_t)? | declval |
    (integral|bool)_constant | (true|false)_type | (make_)?(integer|index)_sequence | index_sequence_for |
    same_as | convertible_to | integral | floating_point""", re.VERBOSE)
# And what an error is made of that is thrown.
STANDARD_WHERE_THROWN = {"string", "to_string", "invalid_argument", "runtime_error", "logic_error", "domain_error", "out_of_range"}

FORBIDDEN = {
    "asm": "assembly",
    "extern": "a function or variable declared by hand",
    "thread_local": "a variable that outlives its block",
    "try": "going on after an error", "catch": "going on after an error",
    "new": "memory of its own, which nobody counts or checks", "delete": "memory of its own, which nobody counts or checks",
    "reinterpret_cast": "another reading of somebody's memory", "const_cast": "writing what may only be read",
    "union": "another reading of somebody's memory", "memcpy": "another reading of somebody's memory",
    "memmove": "another reading of somebody's memory",
    "co_await": "memory of its own, which nobody counts or checks", "co_yield": "memory of its own, which nobody counts or checks",
    "co_return": "memory of its own, which nobody counts or checks",
    "import": "a module", "module": "a module", "export": "a module",
    "gnu": "an attribute of one compiler",
    "alloca": "memory of its own, which nobody counts or checks",
    "classroom": "the judge's side", "cpu": "the machine's inside",
    "cudaLaunchKernelEx": "a launch that nobody records (simt::launch does it)",
}

# What is found without saying `simt::`, since its arguments are the machine's.
INSIDE = re.compile(
    r"launch_kernel|run_grid|name_next_launch|last_launch_counters|set_max_dynamic_shared_bytes|(set_)?cpu_(device|workers)\w*|"
    r"note_\w+|global_(view|regions|indices|element_name)|nearest_view|written_elements|expect_kernels_to_write|tensor_(id|name)|"
    r"memory_behind|beyond_views|only_views_reach_tensors|access_(atomically|global)|issue_copy|companion|lend_to_bare_pointer|"
    r"dynamic_shared_memory|passes_by|make_tensor_map|LaunchLog|LaunchRecord|Scoped\w+|Traffic|Block|GlobalShadow|SharedMemory|"
    r"SIMT_(?!MACHINE$)\w+")

# C++'s own, which cannot mean anything else.
KEYWORDS = set("""
    alignas alignof auto bool break case char class concept const consteval constexpr constinit continue decltype default delete do double
    else enum explicit false float for friend goto if inline int long mutable namespace new noexcept nullptr operator private protected
    public requires return short signed sizeof static static_assert static_cast struct switch template this throw true typename union
    unsigned using virtual void volatile while""".split())

# Members of what a view gives, by which it finds the memory and tells the machine. As other names they are anybody's.
INSIDE_OF_VIEWS = {"memory", "address", "place_of", "note"}

DEEPEST = 100  # brackets in brackets; a kernel has a tenth of that
MOST_COMPLAINTS = 40

TOKEN = re.compile(r"""(?P<raw>(?:u8|u|U|L)?R")                              |
                       (?P<number>\.?\d(?:'?\w|(?<=[eEpP])[+-]|\.)*)         |
                       (?P<text>(?:u8|u|U|L)?"(?:\\.|[^"\\])*"\w*)           |
                       (?P<letter>(?:u8|u|U|L)?'(?:\\.|[^'\\])+'\w*)         |
                       (?P<word>[^\W\d]\w*)                                  |
                       (?P<mark><<<|::|<%|%>|\S)""", re.VERBOSE)


@dataclasses.dataclass(frozen=True)
class Token:
    kind: str
    text: str
    line: int


class Unreadable(Exception):
    """Complaints about a file that has no words to look at."""


def _without_comments(text, compiler):
    """[(line number, line)] as the preprocessor sees the file: comments gone, directives not yet obeyed, nothing replaced."""
    odd = [f"line {n}: a control character: a kernel is plain text" for n, line in enumerate(text.split("\n"), 1)
           if re.search(r"[\0-\x08\x0b-\x1f\x7f]", line.removesuffix("\r"))]
    # Lines that were put together would hide words from the lexer, which does not do it where it does not obey.
    odd += [f"line {n}: a backslash at the end of a line" for n, line in enumerate(text.split("\n"), 1) if re.search(r"\\\s*$", line)]
    if odd:
        raise Unreadable(odd)
    name, other = secrets.token_hex(16), f"m{secrets.token_hex(16)}"  # nobody can write a line marker of this name
    numbers = itertools.count()
    text = re.sub(r"\bpragma\b", lambda _: f"define {other}_{next(numbers)}", text)  # a pragma it would obey, and a macro it leaves alone
    command = [compiler, "-std=c++20", "-w", "-fdiagnostics-color=never", "-fpreprocessed", "-dD", "-E", "-x", "c++", "-"]
    said = limits.run(command, LEX_SECONDS, stdin=f'# 1 "{name}"\n{text}\n'.encode())
    if said.late:
        raise Unreadable([f"the preprocessor took {LEX_SECONDS} s of the processor's time and was not done"])
    if said.starved:
        raise limits.Starved("the preprocessor was ended by the machine, or got no processor for too long")
    if said.code != 0:
        errors = re.findall(rf"^{name}:(\d+):\d+: (?:fatal )?error: (.*)", said.stderr, re.MULTILINE)
        raise Unreadable([f"line {n}: {words}" for n, words in errors] or ["the preprocessor does not understand it"])
    lines, number = [], None
    for line in re.sub(rf"define {other}_\d+", "pragma", said.stdout).split("\n"):
        if marker := re.fullmatch(rf'# (\d+) "{name}"', line):
            number = int(marker[1])
        elif number is not None:
            lines.append((number, line))
            number += 1
    return lines


def _tokens(lines):
    return [Token(match.lastgroup, match[0], number) for number, line in lines for match in TOKEN.finditer(line)]


def headers(text):
    """The headers of a file that is to be trusted, as they are written there: "<cmath>"."""
    return set(re.findall(r'^\s*#\s*include\s+("[^"]+"|<[^>]+>)', text, re.MULTILINE))


def _complaint_about_directive(line, allowed):
    if included := re.fullmatch(r'#\s*include\s*("[^"]*"|<[^>]*>)', line):
        if included[1] in allowed:
            return None
        own = sorted(header for header in allowed if header.startswith('"'))
        return (f"the header {included[1]}: this file has {', '.join([*own, *sorted(STANDARD_HEADERS)])}")
    if re.fullmatch(r"#\s*pragma\s+(once|(GCC\s+)?unroll(\s+\w+)?|nounroll)", line):
        return None
    directive = re.match(r"(#|%:)\s*\w*", line)[0]
    return f"{directive}: a preprocessor directive other than #include, #pragma once and #pragma unroll is not for a kernel"


def _complaint_about_word(before, word, after, own_names, is_thrown):
    """before, after: the texts of the neighbours, two before and four after it. own_names: what the starting point calls something.
    is_thrown: it stands between `throw` and the end of that statement."""
    if words := cuda_words.words_for(word):
        return words
    if word == "delete" and before[-1] == "=":
        return None
    if word in FORBIDDEN:
        return f"{word}: {FORBIDDEN[word]} is not for a kernel"
    if INSIDE.fullmatch(word) or word in INSIDE_OF_VIEWS and (
            before[-1] in (".", "::", "template") or before == ["-", ">"] or after[0] in ("(", "<") and word not in own_names):
        return f"{word}: the machine's inside is not for a kernel"
    if word.startswith("__") and word not in RESERVED or re.match(r"_[A-Z]", word):
        like = difflib.get_close_matches(word, RESERVED, 1)
        known = f" (of CUDA's the machine knows {like[0]})" if like else ""
        return f"{word}: names that begin so are the compiler's, and no kernel's{known}"
    if word.startswith("cuda") and word not in CUDA:
        return f"{word}: a launch needs no functions of CUDA's host; the machine knows {', '.join(sorted(CUDA))}"
    if word == "simt" and not (after[0] == "::" and after[1] in MACHINE):
        return f"simt{''.join(after[:2]) if after[0] == '::' else ''}: the machine's inside is not for a kernel"
    if word == "current_device" and after != ["(", ")", ".", "has_feature"]:
        return "current_device: a kernel may ask current_device().has_feature(…), and nothing else of it"
    if word == "std" and after[0] != "::":
        return "std: the library's own namespace, under another name or with something more in it, is not for a kernel"
    if word == "std" and not STANDARD_NAMES.fullmatch(after[1]) and not (is_thrown and after[1] in STANDARD_WHERE_THROWN):
        return (f"std::{after[1]}: of std a kernel has numbers, mathematics, types and std::array, and texts and errors where it throws them; "
                "memory that something takes for itself is counted and checked by nobody")
    if word == "template" and after[0] != "<" and before[-1] in ("", ";", "{", "}"):
        return "template without <…>: a kernel makes its instances where it uses them"
    if before[-1] == "::" and word.endswith("_"):
        return f"::{word}: what a class keeps to itself is not for a kernel"
    if word == "namespace" and before[-1] == "using":
        return "using namespace: say where each name is from"
    if word == "namespace" and after[0] not in ("ladder", "{"):
        return f"namespace {after[0]}: a kernel lives in ladder::SIMT_MACHINE"
    return None


def _nested_too_deep(tokens):
    """The line where brackets are; None in any kernel. A compiler takes its time over them, and then has no stack left."""
    depth = 0
    for token in tokens:
        depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
        if depth > DEEPEST:
            return token.line
    return None


def _complaints_about_words(tokens, own_names):
    if line := _nested_too_deep(tokens):
        yield f"line {line}: brackets that are nested more than {DEEPEST} deep"
    texts = ["", "", *(token.text for token in tokens), "", "", "", ""]
    depth, is_thrown = 0, False
    for n, token in enumerate(tokens):
        is_thrown = token.text == "throw" or is_thrown and token.text not in (";", "{")
        if token.kind == "raw" or token.text in ("<%", "%>"):
            yield f'line {token.line}: {token.text}: write strings as "…" and brackets as {{ }}'
        elif token.kind == "word" and (
                words := _complaint_about_word(texts[n:n + 2], token.text, texts[n + 3:n + 7], own_names, is_thrown)):
            yield f"line {token.line}: {words}"
        elif token.text == "*" and (texts[n + 1] == "::" or texts[n + 1] == "." or texts[n:n + 2] == ["-", ">"]):
            yield f"line {token.line}: {texts[n + 1]}*: a pointer to a member, and so to what a class keeps to itself, is not for a kernel"
        elif token.text == "<<<":
            yield f"line {token.line}: {cuda_words.words_for('<<<')}"
        elif token.text == "\\":
            yield f"line {token.line}: a backslash outside of a text"
        if depth == 0 and token.text not in ("namespace", "ladder", "::", "SIMT_MACHINE", "{"):
            yield f"line {token.line}: {token.text}: everything in the file belongs between namespace ladder… {{ and its }}"
            return
        depth += (token.text == "{") - (token.text == "}")


def _launches(tokens):
    """The functions that launch kernels, {name: (line, words)}, and how often each is named."""
    found, named, depth, name, words = {}, collections.Counter(), 0, None, []
    for token in tokens:
        if re.fullmatch(r"launch_\w+", token.text):
            named[token.text] += 1
            if depth == 1:
                name, words = token, []
        if name:
            words.append(token.text)
        depth += (token.text == "{") - (token.text == "}")
        if name and depth == 1 and token.text in ("}", ";"):
            found[name.text] = (name.line, words)
            name = None
    return found, named


@functools.cache
def _launches_of(starting_point, compiler, given):
    tokens = _tokens(_code(_without_comments(starting_point, compiler), given))
    return *_launches(tokens), _names_of_launches(tokens)


@functools.cache
def _names_in(starting_point):
    return frozenset(re.findall(r"\w+", starting_point))


def _names_of_launches(tokens):
    """Names that stand in functions that launch, and nowhere else in the file."""
    inside = collections.Counter(word for _, words in _launches(tokens)[0].values() for word in words)
    everywhere = collections.Counter(token.text for token in tokens)
    return {name for name, times in inside.items() if re.match(r"[^\W\d]", name) and name not in KEYWORDS and times == everywhere[name]}


def _complaints_about_launches(tokens, asked, asked_names, reserved):
    """Of a file that must launch as the starting point does, with the same meaning of its words: what is called so by the file comes
    before what the machine calls so."""
    found, named = _launches(tokens)
    for name in sorted(reserved - _names_of_launches(tokens)):
        if any(token.text == name for token in tokens):
            line = next(token.line for token in tokens if token.text == name)
            yield f"line {line}: {name}: this name is of the launch, whose function must mean what it means in the starting point: take another"
    for name, (_, words) in asked.items():
        line, own = found.get(name, (0, []))
        if own != words or named[name] != asked_names[name]:
            yield (f"line {line}: " if line else "") + (
                f"{name}: how the kernel is launched is not this exercise's question, and the judge wants it as the starting point has it")


def _is_directive(line):
    return line.lstrip().startswith(("#", "%:"))


def _braces(given_file):
    return "".join(re.findall("[{}]", re.sub(r"//.*", "", given_file)))


def _code(lines, given):
    """Without directives. `given`: pairs of a path and the lines that the starting point includes by it (see given.py), of which the
    braces count, since one may open what the file closes."""
    given = {f'"{path}"': text for path, text in given}
    code = []
    for number, line in lines:
        included = re.fullmatch(r'\s*#\s*include\s*("[^"]*")\s*', line)
        if included and included[1] in given:
            code.append((number, _braces(given[included[1]])))
        elif not _is_directive(line):
            code.append((number, line))
    return code


def complaints_about_text(text, starting_point, compiler, own_launch=False, given=()):
    """["line 12: …"] for what the file may not contain. Headers that the starting point includes are allowed. Kernels are launched
    as the starting point does it, but for an `own_launch`. `given`: see _code()."""
    allowed = headers(starting_point) | {'"common/simt/simt.h"'} | {f"<{name}>" for name in STANDARD_HEADERS}
    try:
        lines = _without_comments(text.replace("\r\n", "\n"), compiler)
    except Unreadable as unreadable:
        return unreadable.args[0]
    tokens = _tokens(_code(lines, given))
    complaints = [f"line {number}: {words}" for number, line in lines
                  if _is_directive(line) and (words := _complaint_about_directive(line.strip(), allowed))]
    complaints += itertools.islice(_complaints_about_words(tokens, _names_in(starting_point)), MOST_COMPLAINTS)
    if not complaints and not own_launch:
        complaints += _complaints_about_launches(tokens, *_launches_of(starting_point, compiler, tuple(given)))
    return list(dict.fromkeys(complaints))


# --- The files -----------------------------------------------------------------------------------------------------------------

def recorded_files(make_rule):
    """What the compiler opened, by the rule that -MD has it write."""
    names = re.sub(r"\\\n", " ", make_rule.partition(":")[2])
    return {name.replace("\\ ", " ") for name in re.findall(r"(?:\\ |\S)+", names)}


def complaints_about_files(opened, allowed):
    return [f"it includes {name}, which this exercise has no use for" for name in sorted(opened - allowed)]


# --- The object ----------------------------------------------------------------------------------------------------------------

# Functions that an object file may call, by their plain names.
ALLOWED_SYMBOLS = [
    r"simt::", r"ladder::(?!classroom)", r"ladder::classroom::Problem::",  # the entry, which is compiled with it, uses that
    r"(typeinfo|vtable|guard variable|construction vtable|VTT|TLS (init|wrapper) function)( name)? for ",
    r"std::(logic_error|runtime_error|invalid_argument|out_of_range|bad_\w+|exception|terminate|__throw_\w+|__cxx11::(basic_string|to_string)|"
    r"basic_string|allocator|_V2|ios_base_failure|ctype|to_string|move|swap|operator)",
    r"operator (new|delete)", r"__cxa_(?!atexit)\w+", r"__gxx_personality_v0", r"_Unwind_Resume", r"__stack_chk_(fail|guard)",
    r"(__)?mem(cpy|set|move|cmp)(_chk)?", r"strlen", r"printf", r"puts", r"putchar", r"__popcount[ds]i2", r"_GLOBAL_OFFSET_TABLE_",
    r"__dso_handle", r"__tls_get_addr",
    r"(exp|exp2|expm1|log|log2|log1p|log10|pow|sqrt|rsqrt|fma|fmax|fmin|fmod|fabs|floor|ceil|round|lround|llround|rint|lrint|trunc|tanh|"
    r"sinh|cosh|sin|cos|tan|atan|ldexp|frexp|scalbn|copysign|erf|__exp|__log)[fl]?",
]
FORBIDDEN_SYMBOLS = [r"simt::(cpu::)?(expect_kernels_to_write|note_host_write|written_elements|global_regions|set_cpu_\w+)\b",
                     r"simt::LaunchLog::~?LaunchLog"]

SECTIONS = re.compile(r"\.(text|data|bss|rodata|tdata|tbss|gcc_except_table|eh_frame|comment|group|symtab|strtab|shstrtab|debug_\w+|"
                      r"note\.(GNU-stack|gnu\.property)|symtab_shndx)(\..*)?|__patchable_function_entries|\.data\.rel\.(ro|local).*")


INSPECTION_SECONDS = 5  # of a processor; a kernel takes a tenth of one


class Endless(Exception):
    """An object whose record cannot be read within limits."""


def _inspected(command, stdin=""):
    """Lines. A name may be short in the object, and longer than any memory in words."""
    said = limits.run(command, INSPECTION_SECONDS, written=limits.SAID, stdin=stdin.encode())
    if said.starved:
        raise limits.Starved(f"{command[0]} was ended by the machine, or got no processor for too long")
    if said.late or said.code != 0:
        raise Endless
    return said.stdout.split("\n")[:-1]


def _listed(path, option):
    return _inspected(["readelf", "--wide", option, str(path)])


@dataclasses.dataclass(frozen=True)
class Symbol:
    kind: str      # FUNC, OBJECT, …
    binding: str   # GLOBAL, WEAK, LOCAL, UNIQUE
    section: str   # its number, UND, ABS, COM
    name: str      # as the linker has it
    plain: str     # demangled


def _symbols(path):
    rows = [match.groups() for line in _listed(path, "--symbols")
            if (match := re.match(r"\s*\d+:\s+[0-9a-f]+\s+\S+\s+(\S+)\s+(\S+)\s+\S+\s+(?:\[.*?\]\s+)?(\S+)(?:\s+(\S+))?", line))]
    names = [name or "" for *_, name in rows]
    plain = _inspected(["c++filt"], "\n".join(names) + "\n")
    return [Symbol(kind, binding, section, name, demangled.split("@")[0])
            for (kind, binding, section, _), name, demangled in zip(rows, names, plain)]


def _sections(path):
    """Their names by number."""
    return {match[1]: match[2] for line in _listed(path, "--section-headers") if (match := re.match(r"\s*\[\s*(\d+)\] (\S+)", line))}


def strong_symbols(library):
    """What the runner defines, and nobody else may."""
    return {symbol.name for symbol in _symbols(library) if symbol.binding == "GLOBAL" and symbol.section != "UND"}


def _complaints_about_symbol(symbol, section, runner):
    plain = symbol.plain.removeprefix("void ")  # of an instance of a template its type is told as well
    if symbol.kind in ("SECTION", "FILE") or not symbol.name:
        return
    if symbol.section == "UND":
        allowed = any(re.fullmatch(pattern if "::" not in plain and " " not in plain else pattern + ".*", plain) for pattern in ALLOWED_SYMBOLS)
        if not allowed or any(re.match(pattern, plain) for pattern in FORBIDDEN_SYMBOLS):
            yield f"it calls {plain}, for which a kernel has no use"
        return
    if symbol.kind == "IFUNC" or symbol.section in ("ABS", "COM"):
        yield f"it defines {plain} in a way that has no use in a kernel"
    if symbol.binding != "LOCAL" and symbol.name in runner:
        yield f"it defines {plain}, which is the machine's"
    if symbol.binding == "GLOBAL" and not re.match(r"(\w+ )?ladder::", plain):
        yield f"it defines {plain}, outside of namespace ladder"
    if re.match(r"\.(data|bss|tdata|tbss)(?!\.rel\.ro)", section) and not re.match(r"(guard variable for )?(\w+ )?(simt|std)::|DW\.ref\.__gxx_", plain):
        yield f"the variable {plain} outlives a thread and its block, and nobody counts or checks it: keep values in registers and tiles"


def complaints_about_object(path, runner):
    """What the compiled file reaches for that a kernel has no use for. `runner`: strong_symbols() of what it is linked to."""
    try:
        return _complaints_about_object(path, runner)
    except Endless:
        return ["its symbols take longer to read than those of any kernel: is there a type without end?"]


def _complaints_about_object(path, runner):
    complaints, sections = [], _sections(path)
    for name in sections.values():
        plain = name.removeprefix(".rela").removeprefix(".rel") if name.startswith((".rela.", ".rela_", ".rel.")) else name
        if re.match(r"\.(init_array|ctors|preinit_array|fini_array|dtors)", plain):
            complaints.append("it has something that runs before the program begins: a global object with a constructor")
        elif plain != "NULL" and not SECTIONS.fullmatch(plain):
            complaints.append(f"it has a section {name}, for which a kernel has no use")
    for symbol in sorted(_symbols(path), key=lambda symbol: symbol.plain):
        complaints += _complaints_about_symbol(symbol, sections.get(symbol.section, ""), runner)
    return list(dict.fromkeys(complaints))
