#pragma once

#include <string>

namespace simt {
inline namespace cpu {

/// What a thread can wait for, beside barriers of its block and collectives of its warp: see Block::sleep().
class Awaited {
  public:
    /// What is waited for, and what is still missing: "phase 2 of K full[1]: 0 of 1 arrivals, 8192 of 16384 bytes".
    virtual std::string awaited() const = 0;

  protected:
    ~Awaited() = default;
};

}  // namespace cpu
}  // namespace simt
