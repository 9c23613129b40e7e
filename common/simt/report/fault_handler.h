#pragma once

#include "common/simt/report/machine_error.h"

namespace simt {
inline namespace cpu {

/// Who is told of a fault in a kernel, and ends the block that has it. What finds faults knows no more of the block.
class FaultHandler {
  public:
    /// Never returns to the kernel.
    [[noreturn]] virtual void fail(MachineError::Report report) = 0;

  protected:
    ~FaultHandler() = default;
};

}  // namespace cpu
}  // namespace simt
