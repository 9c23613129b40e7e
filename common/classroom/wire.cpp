#include "common/classroom/wire.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>

namespace ladder::classroom {
namespace {

constexpr std::size_t kPrefixBytes = 8;

}  // namespace

std::vector<std::byte> encode(const Message& message) {
    nlohmann::json words = message.words;
    words["blobs"] = nlohmann::json::array();
    for (const auto& blob : message.blobs) words["blobs"].push_back(blob.size());
    const std::string text = words.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);  // any bytes
    std::vector<std::byte> bytes(kPrefixBytes + text.size());
    for (std::size_t n = 0; n < kPrefixBytes; ++n) bytes[n] = std::byte(std::uint64_t{text.size()} >> 8 * n & 0xff);
    std::memcpy(bytes.data() + kPrefixBytes, text.data(), text.size());
    for (const auto& blob : message.blobs) bytes.insert(bytes.end(), blob.begin(), blob.end());
    return bytes;
}

std::optional<Message> decode(std::span<const std::byte> bytes) {
    if (bytes.size() < kPrefixBytes) return {};
    std::uint64_t size = 0;
    for (std::size_t n = 0; n < kPrefixBytes; ++n) size |= std::uint64_t(bytes[n]) << 8 * n;
    bytes = bytes.subspan(kPrefixBytes);
    if (size > kLargestMessage || size > bytes.size()) return {};
    Message message;
    const char* text = reinterpret_cast<const char*>(bytes.data());
    message.words = nlohmann::json::parse(text, text + size, nullptr, /*allow_exceptions=*/false);
    if (!message.words.is_object() || !message.words.contains("blobs") || !message.words["blobs"].is_array()) return {};
    bytes = bytes.subspan(size);
    for (const nlohmann::json& blob : message.words["blobs"]) {
        if (!blob.is_number_unsigned() || blob.get<std::uint64_t>() > bytes.size()) return {};
        const std::span part = bytes.first(blob.get<std::uint64_t>());
        message.blobs.emplace_back(part.begin(), part.end());
        bytes = bytes.subspan(part.size());
    }
    if (!bytes.empty()) return {};
    message.words.erase("blobs");
    return message;
}

std::vector<std::byte> read_all(int descriptor) {
    std::vector<std::byte> bytes;
    std::array<std::byte, 65536> piece;
    while (true) {
        const ssize_t got = ::read(descriptor, piece.data(), piece.size());
        if (got == 0) return bytes;
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw std::system_error(errno, std::generic_category(), "reading a message");
        bytes.insert(bytes.end(), piece.begin(), piece.begin() + got);
    }
}

void write_all(int descriptor, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) throw std::system_error(errno, std::generic_category(), "writing a message");
        bytes = bytes.subspan(std::size_t(written));
    }
}

}  // namespace ladder::classroom
