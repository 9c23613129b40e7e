#include "common/classroom/runner/guarded_memory.h"

#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <system_error>
#include <utility>

namespace ladder::classroom {
namespace {

std::size_t page_bytes() { return std::size_t(::sysconf(_SC_PAGESIZE)); }

std::size_t rounded_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

void protect(std::byte* from, std::size_t bytes, int protection) {
    if (::mprotect(from, bytes, protection) != 0)
        throw std::system_error(errno, std::generic_category(), "memory could not be protected");
}

}  // namespace

GuardedMemory::GuardedMemory(std::size_t bytes) {
    const std::size_t page = page_bytes(), inner = rounded_up(bytes, page);
    void* mapped = ::mmap(nullptr, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        throw std::system_error(errno, std::generic_category(), std::to_string(bytes) + " bytes could not be had");
    mapping_ = {static_cast<std::byte*>(mapped), inner + 2 * page};
    if (inner > 0) protect(mapping_.data() + page, inner, PROT_READ | PROT_WRITE);
    data_ = mapping_.data() + page + inner - rounded_up(bytes, 16);
}

GuardedMemory::~GuardedMemory() {
    if (!mapping_.empty()) ::munmap(mapping_.data(), mapping_.size());
}

GuardedMemory::GuardedMemory(GuardedMemory&& other) noexcept
    : mapping_(std::exchange(other.mapping_, {})), data_(std::exchange(other.data_, nullptr)) {}

GuardedMemory& GuardedMemory::operator=(GuardedMemory&& other) noexcept {
    std::swap(mapping_, other.mapping_);
    std::swap(data_, other.data_);
    return *this;
}

void GuardedMemory::make_read_only() {
    const std::size_t page = page_bytes();
    if (mapping_.size() > 2 * page) protect(mapping_.data() + page, mapping_.size() - 2 * page, PROT_READ);
}

ClosedAddresses::ClosedAddresses(const GuardedMemory& memory, std::size_t bytes) {
    // Somewhere else for each tensor, so that what is true of one address tells nothing of another tensor's.
    static std::mt19937_64 places{[] {
        std::uint64_t drawn_by_the_kernel;
        std::memcpy(&drawn_by_the_kernel, reinterpret_cast<const void*>(::getauxval(AT_RANDOM)),
                    sizeof drawn_by_the_kernel);
        return drawn_by_the_kernel;
    }()};
    const std::size_t page = page_bytes(), within = reinterpret_cast<std::uintptr_t>(memory.data()) % page;
    const std::size_t size = rounded_up(within + bytes + 1, page);
    constexpr std::uintptr_t kLowest = std::uintptr_t{1} << 36, kSpan = std::uintptr_t{1} << 45;
    const std::uintptr_t wish = (kLowest + places() % kSpan) / page * page;
    void* mapped = ::mmap(reinterpret_cast<void*>(wish), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        throw std::system_error(errno, std::generic_category(), std::to_string(bytes) + " addresses could not be had");
    mapping_ = {static_cast<std::byte*>(mapped), size};
    data_ = mapping_.data() + within;
}

ClosedAddresses::~ClosedAddresses() { ::munmap(mapping_.data(), mapping_.size()); }

}  // namespace ladder::classroom
