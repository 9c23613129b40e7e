"""What is meant by words of CUDA's that have another form here, or none: for a file that uses them, in place of a compiler's error."""

import re

WORDS = {
    r"<<<": "<<<…>>> is nvcc's own, and no C++: a kernel is launched by simt::launch(\"name\", config, kernel, arguments…), as the "
            "launch function of this file does it",
    r"cuda(Malloc\w*|Free\w*)": "{} has no use here: tensors are there when the launch begins, and shared memory is carved with "
                                "simt::SharedArena",
    r"cudaMem(cpy|set)\w*": "{} has no use here: tensors are there when the launch begins, and kernels write the results where they belong",
    r"cuda(Device|Stream|Event)(Synchronize|Create|Record|ElapsedTime|Destroy)\w*": "{} has no use here: a launch returns when all of its "
                                                                                  "threads have",
    r"cuda(GetLastError|PeekAtLastError|GetErrorString)": "{} has no use here: simt::launch throws what went wrong",
    r"__shared__": "__shared__: a raw array, which nobody counts or checks (carve a tile with simt::SharedArena instead), is not "
                   "for a kernel",
    r"assert": "assert ends the program without saying where a kernel was. Tensors and tiles check every index by themselves; the "
               "host's side may throw std::invalid_argument(\"what is wrong\")",
    r"atomic(Add|Max|Min|Exch|CAS)": "{}: atomics take an element of a view here: simt::atomic_add(tensor(i), value), likewise atomic_max, "
                                     "atomic_min, atomic_exchange and atomic_compare_exchange",
    r"__shfl(_xor|_up|_down)?": "{} is of before 2017: {}_sync(0xffffffff, value, lane) names the lanes that take part",
    r"__ldg": "__ldg has no use here: an element is read by naming it, float x = tensor(i, j)",
    r"__half2?|__nv_bfloat16": "{}: 16-bit numbers are simt::f16 and simt::bf16 here; kernels take T",
    r"warpSize": "warpSize: a warp has 32 threads; write 32, so that the compiler knows it too",
}


def words_for(word):
    """A sentence, or None for a word like any other."""
    for pattern, words in WORDS.items():
        if re.fullmatch(pattern, word):
            return words.replace("{}", word)
    return None


ELEMENT = re.compile(r"simt::(cpu::)?(Ref<|printf\()")  # of a view, as compilers name its type; the printf that refuses it
SHUFFLE = re.compile(r"deleted function .*__shfl(_xor|_up|_down)?_sync\(.*with T = (.*)\]")
UNKNOWN = re.compile(r"[‘'](\w+)[’'] (was not declared|does not name a type|has not been declared)")
FOR_UNKNOWN = {"half": "half: 16-bit numbers are simt::f16 and simt::bf16 here; kernels take T",
               "printf": "printf: it needs #include <cstdio>, and a number to print: printf(\"%g\\n\", float(tile(r, c)))"}


def words_for_error(error):
    """A sentence in place of a compiler's error; None where its own words will do."""
    if ELEMENT.search(error):
        return ("an element of a tensor or tile is read where a number is asked for, and neither `auto` nor `...` asks for one: write "
                "float x = tile(r, c) in place of auto x = tile(r, c), and float(tile(r, c)) for printf")
    if shuffle := SHUFFLE.search(error):
        return f"a shuffle moves a number, and this is a value of type {shuffle[2]}: what lanes are to share lies in shared memory, or is sent number by number"
    if "variable length array" in error:
        return "an array's length stands in the program: neither C++ nor CUDA has arrays of a length that is known when it runs"
    unknown = UNKNOWN.search(error)
    return unknown and FOR_UNKNOWN.get(unknown[1])
