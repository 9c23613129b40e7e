#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ladder::classroom {

/// What the judge and a runner tell each other: a few words, and the bytes of tensors.
///
/// On the wire: the number of bytes of the words (8, little-endian), the words as JSON, then each blob. The JSON lists
/// their sizes under "blobs".
struct Message {
    nlohmann::json words = nlohmann::json::object();  ///< an object
    std::vector<std::vector<std::byte>> blobs = {};   ///< tensors, row by row
};

/// The file descriptor on which a runner answers; its standard output belongs to the learner.
inline constexpr int kReplyDescriptor = 3;

/// The most bytes that a message may announce.
inline constexpr std::uint64_t kLargestMessage = std::uint64_t{1} << 30;

/// As it goes over the wire.
std::vector<std::byte> encode(const Message& message);

/// The message that these bytes are; nothing if they are not a whole one, or more than one.
std::optional<Message> decode(std::span<const std::byte> bytes);

/// Reads to the end of a file descriptor; writes everything to one. Throw std::system_error.
std::vector<std::byte> read_all(int descriptor);
void write_all(int descriptor, std::span<const std::byte> bytes);

}  // namespace ladder::classroom
