#pragma once

#if !defined(__x86_64__) && !defined(__aarch64__)
#error "the CPU machine switches between the threads of a block in assembly, for x86-64 and 64-bit Arm"
#endif

#include <cstdint>
#include <cstring>

namespace simt {
inline namespace cpu {

/// The stack pointer of a thread that does not run at the moment.
using StackPointer = void*;

/// The stack pointer of a thread with that stack that has not begun.
inline StackPointer unstarted_stack(void* top) { return static_cast<std::uint64_t*>(top) - 4; }

/// Prepares an empty stack, `top` being a multiple of 16: who switches to it enters `entry`, which must not return.
inline StackPointer prepare_stack(void* top, void (*entry)()) {
    auto* const words = static_cast<std::uint64_t*>(unstarted_stack(top));
    words[0] = reinterpret_cast<std::uint64_t>(entry);
    words[1] = 0;  // in the place of a return address: debuggers see that the calls end here
    return words;
}

/// Leaves the running stack, whose pointer goes to `from`, and goes on where `to` was left.
///
/// A block switches millions of times a second, so this must cost nanoseconds. Inlined, and with a jump, it leaves the
/// processor's stack of return addresses in step: a `call` or `ret` too many (as in Boost.Context's jump_fcontext)
/// makes it mispredict every return that follows, which costs ten times as much as the switch. The compiler saves of
/// the registers named at the end what it needs.
[[gnu::always_inline]] inline void switch_stack(StackPointer* from, StackPointer to) {
#ifdef __x86_64__
    asm volatile(
        "leaq -128(%%rsp), %%rsp\n\t"  // the red zone belongs to the function that this stands in
        "pushq %%rbp\n\t"              // compilers do not let it be named below
        "leaq 1f(%%rip), %%rdx\n\t"
        "pushq %%rdx\n\t"
        "movq %%rsp, (%%rax)\n\t"
        "movq %%rcx, %%rsp\n\t"
        "popq %%rdx\n\t"
        "jmp *%%rdx\n"
        "1:\n\t"
        "popq %%rbp\n\t"
        "leaq 128(%%rsp), %%rsp"
        : "+a"(from), "+c"(to)
        :
        : "rbx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1", "xmm2",
          "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15",
          "memory", "cc");
#else
    register StackPointer* leave asm("x0") = from;
    register StackPointer enter asm("x1") = to;
    asm volatile(
        "stp x29, x30, [sp, #-32]!\n\t"  // the frame pointer: compilers do not let it be named below
        "adr x9, 1f\n\t"
        "stp x9, xzr, [sp, #16]\n\t"
        "add x10, sp, #16\n\t"
        "str x10, [x0]\n\t"
        "ldp x16, x30, [x1]\n\t"  // the return address of who enters a new stack is none
        "mov sp, x1\n\t"
        "br x16\n"  // under BTI, only a jump through x16 or x17 may enter a function
        "1:\n\t"
        "hint #36\n\t"  // bti j: under BTI, a jump may land here
        "sub sp, sp, #16\n\t"
        "ldp x29, x30, [sp], #32"
        : "+r"(leave), "+r"(enter)
        :
        : "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x18",
          "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x30", "v0", "v1", "v2", "v3", "v4",
          "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20",
          "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "p0", "p1", "p2", "p3", "p4",
          "p5", "p6", "p7", "p8", "p9", "p10", "p11", "p12", "p13", "p14", "p15", "memory", "cc");
#endif
}

}  // namespace cpu
}  // namespace simt
