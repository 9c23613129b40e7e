#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace simt {
inline namespace cpu {

/// Tells threads that wait from threads that work, by what their atomic accesses find: who finds at one place the same
/// value again and again waits for somebody to change it.
class SpinWatch {
  public:
    void start_block();

    /// A thread of so many has found these bits there. Whether it is time to let somebody else have a turn.
    bool finds(int thread, std::uintptr_t address, std::uint64_t bits, int threads);

    /// Somebody has done something else than to look in vain.
    void note_news() { news_ = true; }

    /// Whether anybody has found anything new since the last call.
    bool take_news() {
        const bool news = news_;
        news_ = false;
        return news;
    }

  private:
    static constexpr unsigned kTimes = 32, kPlaces = 4;
    struct Look {
        std::uintptr_t address = 0;
        std::uint64_t bits = 0;
        unsigned times = 0;
    };
    struct Looks {
        std::array<Look, kPlaces> last{};
        unsigned next = 0;
    };

    std::vector<Looks> looks_;  // by thread
    bool news_ = false;
};

}  // namespace cpu
}  // namespace simt
