#pragma once

#include <cstdint>
#include <string>

namespace simt {

/// A place in a kernel's source: file and line in one word, so that the shadow memory can afford to keep it for every
/// access. User-space addresses need 47 bits, which leaves 16 for the line.
class SourceSite {
  public:
    constexpr SourceSite() = default;
    /// `file` must outlive every copy: a literal, such as __FILE__.
    SourceSite(const char* file, unsigned line)
        : packed_(reinterpret_cast<std::uintptr_t>(file) << 16 | (line & 0xffff)) {}

    /// The caller's place, when it is the default value of a parameter. (std::source_location would say the same, but
    /// clang 14 cannot use it.)
    static SourceSite here(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
        return {file, line};
    }

    /// What it was made of; known() says whether it was made of anything.
    const char* file() const { return reinterpret_cast<const char*>(packed_ >> 16); }
    unsigned line() const { return packed_ & 0xffff; }
    bool known() const { return packed_ != 0; }

    /// "folder/kernel.cuh:88": the last two components of the path are enough to find it, and do not depend on where
    /// the repository was cloned.
    std::string text() const;

    /// The same line of the same literal.
    friend bool operator==(SourceSite, SourceSite) = default;

  private:
    std::uint64_t packed_ = 0;
};

}  // namespace simt
