#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "common/simt/report/source_site.h"

namespace simt {
inline namespace cpu {

struct ProductResult;

/// What the checked machine knows of registers that products read or write.
class ProductRegisters {
  public:
    enum class Kind : std::uint8_t { accumulator, operand };
    enum class State : std::uint8_t {
        touched,    ///< by the thread, since begin_products() last named them
        ready,      ///< for a product: named, and not touched since
        under_way,  ///< a product has an accumulator, and the wait for it is yet to come
        unnamed,    ///< the wait has come, and has not named the accumulator: the compiler knows of no connection
    };

    Kind kind() const { return kind_; }

  protected:
    ProductRegisters(Kind kind, SourceSite site) : kind_(kind), touched_at_(site) {}
    ~ProductRegisters() = default;

    Kind kind_;
    State state_ = State::touched;
    SourceSite touched_at_;  // first, since they were ready

    friend class WarpgroupProducts;
};

/// Of an Accumulator.
class AccumulatorRegisters : public ProductRegisters {
  public:
    AccumulatorRegisters(const AccumulatorRegisters&) = delete;
    AccumulatorRegisters& operator=(const AccumulatorRegisters&) = delete;

  protected:
    explicit AccumulatorRegisters(SourceSite site) : ProductRegisters(Kind::accumulator, site) {}
    ~AccumulatorRegisters() {
        if (result_) [[unlikely]]
            lose();
    }

    /// The thread reads or writes register `i`.
    [[gnu::always_inline]] void touch(int i, SourceSite site) {
        if (state_ != State::touched) [[unlikely]]
            touch_first(i, site);
    }
    /// Or all of them, to copy them.
    void check_copy(SourceSite site) const;
    [[noreturn, gnu::cold, gnu::noinline]] static void fail_index(int i, int size, SourceSite site);

  private:
    [[gnu::noinline]] void touch_first(int i, SourceSite site);
    [[gnu::cold, gnu::noinline]] void lose();

    ProductResult* result_ = nullptr;  // while under way

    friend class WarpgroupProducts;
};

/// Of an OperandA.
class OperandRegisters : public ProductRegisters {
  public:
    static constexpr int kCount = 4;

  protected:
    explicit OperandRegisters(SourceSite site) : ProductRegisters(Kind::operand, site) {}

    void check_read(int r, SourceSite site) const {
        if (read_by_) [[unlikely]]
            ask_product("reads", r, site);
    }
    void note_write(int r, SourceSite site) {
        if (read_by_) [[unlikely]]
            ask_product("writes", r, site);
        if (state_ == State::ready) {
            state_ = State::touched;
            touched_at_ = site;
        }
        written_ |= 1u << r;
    }
    SourceSite touched_at() const { return touched_at_; }
    void take_notes_of(const OperandRegisters& other) { written_ = other.written_; }
    [[noreturn, gnu::cold, gnu::noinline]] static void fail_index(int r, SourceSite site);

    std::array<std::uint32_t, kCount> registers_;

  private:
    [[gnu::noinline]] void ask_product(const char* does, int r, SourceSite site) const;

    unsigned written_ = 0;  // a bit for each register
    // The number of the last product that reads them, which is no change of theirs; 0: none has.
    mutable std::uint64_t read_by_ = 0;

    friend class WarpgroupProducts;
};

/// The number of a register, and the line that names it.
struct RegisterAt {
    RegisterAt(int i_, SourceSite site_ = SourceSite::here()) : i(i_), site(site_) {}
    int i;
    SourceSite site;
};

/// Accumulators or operands that a call names: one, or an array of them.
class NamedRegisters {
  public:
    template <class R>
    explicit NamedRegisters(R& registers)
        : first_(reinterpret_cast<std::remove_all_extents_t<R>*>(&registers)),
          step_(sizeof(std::remove_all_extents_t<R>)),
          count_(sizeof(R) / step_) {}

    template <class Use>
    void for_each(Use&& use) const {
        for (std::size_t i = 0; i < count_; ++i)
            use(*reinterpret_cast<ProductRegisters*>(reinterpret_cast<std::byte*>(first_) + i * step_));
    }

  private:
    ProductRegisters* first_;
    std::size_t step_, count_;
};

/// The first registers that a call names, and its line: where a list of any length follows, nothing can come last.
struct FirstNamed {
    template <class R>
    FirstNamed(R& registers_, SourceSite site_ = SourceSite::here()) : registers(registers_), site(site_) {}
    NamedRegisters registers;
    SourceSite site;
};

}  // namespace cpu
}  // namespace simt
