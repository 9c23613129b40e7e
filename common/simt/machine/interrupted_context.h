#pragma once

#include <ucontext.h>

#include <cstdint>

#include "common/simt/machine/switch_stack.h"

namespace simt {
inline namespace cpu {

/// Where a signal interrupted a thread, as its handler is told.
class InterruptedContext {
  public:
    /// Of the handler's third argument.
    explicit InterruptedContext(void* context) : registers_(static_cast<ucontext_t*>(context)->uc_mcontext) {}

    /// The instruction that was interrupted, and the stack pointer there.
    std::uintptr_t instruction() const { return std::uintptr_t(instruction_register()); }
    std::uintptr_t stack() const { return std::uintptr_t(stack_register()); }

    /// Lets the thread go on where switch_stack() left `to`, once the handler returns. So nothing of the machine runs
    /// inside the handler, where little is allowed.
    void switch_to(StackPointer to) {
        const auto* const words = static_cast<const std::uint64_t*>(to);
        set(instruction_register(), words[0]);
#ifdef __x86_64__
        set(stack_register(), reinterpret_cast<std::uintptr_t>(words + 1));
        registers_.gregs[REG_EFL] &= ~greg_t{0x400};  // functions expect the direction flag clear
#else
        set(stack_register(), reinterpret_cast<std::uintptr_t>(words));
        registers_.regs[30] = words[1];
        registers_.pstate &= ~(std::uint64_t{3} << 10);  // BTYPE: no landing pad is asked for
#endif
    }

  private:
    template <class Register>
    static void set(Register& r, std::uint64_t value) {
        r = static_cast<Register>(value);
    }
#ifdef __x86_64__
    greg_t& instruction_register() const { return registers_.gregs[REG_RIP]; }
    greg_t& stack_register() const { return registers_.gregs[REG_RSP]; }
#else
    unsigned long long& instruction_register() const { return registers_.pc; }
    unsigned long long& stack_register() const { return registers_.sp; }
#endif

    mcontext_t& registers_;
};

}  // namespace cpu
}  // namespace simt
