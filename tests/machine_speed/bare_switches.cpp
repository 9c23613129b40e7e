#include "tests/machine_speed/bare_switches.h"

#include <vector>

#include "common/simt/machine/block.h"
#include "common/simt/machine/switch_stack.h"

namespace ladder {
namespace {

class Ring {
  public:
    Ring(int threads, int times) : stacks_(threads), times_(times) {
        memory_.reserve(threads);
        for (int i = 0; i < threads; ++i) stacks_[i] = simt::prepare_stack(memory_.top_of(i), enter);
        last_ = &stacks_.back();
    }
    void run() {
        current_ = this;
        running_ = stacks_.data();
        simt::switch_stack(&home_, *running_);
    }

  private:
    static void enter() {
        Ring& ring = *current_;
        for (int i = 0; i < ring.times_; ++i) {
            simt::StackPointer* const from = ring.running_;
            ring.running_ = from == ring.last_ ? ring.stacks_.data() : from + 1;
            simt::switch_stack(from, *ring.running_);
        }
        simt::StackPointer abandoned;
        simt::switch_stack(&abandoned, ring.home_);
    }

    static inline Ring* current_ = nullptr;
    simt::FiberStacks memory_;
    std::vector<simt::StackPointer> stacks_;
    simt::StackPointer* last_ = nullptr;
    simt::StackPointer* running_ = nullptr;
    simt::StackPointer home_ = nullptr;
    int times_;
};

}  // namespace

void run_bare_switches(int threads, int times) { Ring(threads, times).run(); }

}  // namespace ladder
