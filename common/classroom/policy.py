"""What a learner's file may use. A kernel needs the machine, its tensors and mathematics, and has no use for anything else:
a file that reaches further is not run, and the learner is told why.

Two looks are taken: at the text (which headers, and a few words), and at the compiled file (which functions it calls; whether
anything in it would run before the program begins).
"""

import re
import subprocess

STANDARD_HEADERS = {"algorithm", "array", "bit", "cmath", "cstddef", "cstdint", "cstdio", "limits", "stdexcept", "string", "type_traits",
                    "utility"}

# What the preprocessor or the assembler would do behind the compiler's back, and the machine's own books.
FORBIDDEN_WORDS = {
    r"\basm\b|__asm": "assembly",
    r"(#|%:)\s*(define|undef|line|ifdef|ifndef|if|elif|else|endif|import|include_next)\b|%:":
        "a preprocessor directive other than #include and #pragma",
    r"#\s*include\s+[^<\s]": "an #include whose file is not written out",
    r"\\": "a backslash outside of a text",
    r"\bextern\b": "a function declared by hand",
    r"\b__shared__\b": "a raw array, which nobody counts or checks (carve a tile with simt::SharedArena instead),",
    r"\bexpect_kernels_to_write\b|\bnote_host_write\b|\bnote_view\b|\bwritten_elements\b|\bglobal_regions\b|\bGlobalRegion\w*":
        "the machine's record of what was written",
    r"\bLaunch(Log|Record)\b|\blast_launch_counters\b|\bset_cpu_\w+|\bScoped\w+|\bTraffic\b": "the machine's settings and counters",
    r"\bsimt\s*::\s*cpu\b|\bnamespace\s+(simt|cpu)\b|\brun_grid\b|\bGlobalShadow\b|\bSharedMemory\b|\bBlock(Recorder)?\s*::":
        "the machine's inside",
    r"\bclassroom\b": "the judge's side",
}

# Functions that an object file may call, by their plain names.
ALLOWED_SYMBOLS = [
    r"simt::", r"ladder::(?!classroom)", r"ladder::classroom::Problem::",  # the entry, which is compiled with it, uses that
    r"(typeinfo|vtable|guard variable|construction vtable|VTT)( name)? for ",
    r"std::(logic_error|runtime_error|invalid_argument|out_of_range|bad_\w+|exception|terminate|__throw_\w+|__cxx11::(basic_string|to_string)|"
    r"basic_string|allocator|_V2|ios_base_failure|ctype|to_string|move|swap|operator)",
    r"operator (new|delete)", r"__cxa_(?!atexit)\w+", r"__gxx_personality_v0", r"_Unwind_Resume", r"__stack_chk_(fail|guard)",
    r"(__)?mem(cpy|set|move|cmp)(_chk)?", r"strlen", r"printf", r"puts", r"putchar", r"__popcount[ds]i2", r"_GLOBAL_OFFSET_TABLE_", r"__dso_handle", r"__tls_get_addr",
    r"(exp|exp2|expm1|log|log2|log1p|log10|pow|sqrt|rsqrt|fma|fmax|fmin|fmod|fabs|floor|ceil|round|lround|llround|rint|lrint|trunc|tanh|"
    r"sinh|cosh|sin|cos|tan|atan|ldexp|frexp|scalbn|copysign|erf|__exp|__log)[fl]?",
]
FORBIDDEN_SYMBOLS = [r"simt::(cpu::)?(expect_kernels_to_write|note_host_write|written_elements|global_regions|set_cpu_\w+)\b",
                     r"simt::LaunchLog::~?LaunchLog"]


def without_comments_and_strings(text):
    """The same lines, with comments and the insides of strings blanked."""
    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''

    def blank(match):
        return re.sub(r"[^\n]", " ", match[0])

    kept = re.sub(r'^(\s*#\s*include\s+)"([^"\n]*)"', r"\1<\2>", text, flags=re.MULTILINE)  # names of headers stay
    return re.sub(pattern, blank, kept, flags=re.DOTALL)


def complaints_about_text(text, starting_point):
    """["line 12: …"] for what the file may not contain. Headers that the starting point includes are allowed."""
    def headers(source):
        return re.findall(r'^\s*#\s*include\s+["<]([^">]+)[">]', source, re.MULTILINE)

    allowed = {*headers(starting_point), *STANDARD_HEADERS}
    complaints = []
    plain = without_comments_and_strings(text)
    original = without_comments_and_strings(starting_point)
    for number, line in enumerate(plain.splitlines(), 1):
        included = re.match(r'\s*#\s*include\s+["<]([^">]+)[">]', line)
        if included and included[1] not in allowed and not re.fullmatch(r"common/(attention/[\w/]+|simt/simt)\.(cuh|h)", included[1]):
            complaints.append(f"line {number}: the header {included[1]}: a kernel has common/attention, common/simt/simt.h and "
                              f"{', '.join(sorted(STANDARD_HEADERS))}")
        for word, what in FORBIDDEN_WORDS.items():
            if (found := re.search(word, line)) and line.strip() not in original:
                complaints.append(f"line {number}: {found[0].strip()}: {what} is not for a kernel")
    return complaints


def complaints_about_object(path):
    """What the compiled file reaches for that a kernel has no use for."""
    def undefined(file):
        listed = subprocess.run(["nm", "--demangle", "--undefined-only", str(file)], capture_output=True, text=True, check=True).stdout
        return {line.split(maxsplit=1)[1].removeprefix("U ").split("@")[0].strip() for line in listed.splitlines() if line.strip()}

    complaints = []
    for symbol in sorted(undefined(path)):
        symbol = symbol.removeprefix("void ")  # of an instance of a template its type is told as well
        allowed = any(re.fullmatch(pattern if "::" not in symbol and " " not in symbol else pattern + ".*", symbol)
                      for pattern in ALLOWED_SYMBOLS)
        if not allowed or any(re.match(pattern, symbol) for pattern in FORBIDDEN_SYMBOLS):
            complaints.append(f"it calls {symbol}, for which a kernel has no use")
    sections = subprocess.run(["objdump", "--section-headers", str(path)], capture_output=True, text=True, check=True).stdout
    if re.search(r"\.(init_array|ctors|preinit_array)\b", sections):
        complaints.append("it has something that runs before the program begins: a global object with a constructor")
    return complaints
