#include "common/training/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace ladder::training {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "safetensors stores little-endian numbers; they are copied");

constexpr std::string_view kProgram = "FlashLadder train, version 1";
constexpr std::size_t kLengthBytes = sizeof(std::uint64_t);
constexpr std::array<const char*, 3> kTensors = {"weights", "mean", "square"};

/// A sum that changes with every bit. (FNV-1a over words, the rest byte by byte)
std::uint64_t sum_of(std::string_view bytes) {
    std::uint64_t sum = 0xcbf29ce484222325u;
    const auto mix = [&](std::uint64_t word) { sum = std::rotl((sum ^ word) * 0x100000001b3u, 23); };
    std::size_t i = 0;
    for (; i + kLengthBytes <= bytes.size(); i += kLengthBytes) {
        std::uint64_t word = 0;
        std::memcpy(&word, bytes.data() + i, kLengthBytes);
        mix(word);
    }
    for (; i < bytes.size(); ++i) mix(std::uint64_t(static_cast<unsigned char>(bytes[i])) + 1);
    return sum;
}

/// A file that is open; closed with the object.
class Open {
  public:
    Open(const fs::path& path, int flags) : path_(path), file_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
        if (file_ < 0) fail("opened");
    }
    ~Open() { ::close(file_); }
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;

    void write(std::string_view bytes) {
        while (!bytes.empty()) {
            const ssize_t written = ::write(file_, bytes.data(), bytes.size());
            if (written < 0 && errno != EINTR) fail("written");
            if (written > 0) bytes.remove_prefix(std::size_t(written));
        }
    }
    void to_the_disk() {
        if (::fsync(file_) != 0) fail("forced to the disk");
    }

  private:
    [[noreturn]] void fail(const char* what) const {
        throw std::runtime_error(
            fmt::format("training: {} cannot be {}: {}", path_.string(), what, std::strerror(errno)));
    }
    fs::path path_;
    int file_;
};

[[noreturn]] void reject(const fs::path& file, const std::string& found) {
    throw std::runtime_error(fmt::format(
        "training: the checkpoint {} cannot be used: {}. Begin anew with --restart, or name another folder with --out.",
        file.string(), found));
}

/// Doubles as whole numbers of the same bits: decimal text would have to be trusted to give them back.
json bits_of(const std::vector<double>& numbers) {
    json result = json::array();
    for (const double x : numbers) result.push_back(std::bit_cast<std::uint64_t>(x));
    return result;
}

double from_bits(const json& bits) { return std::bit_cast<double>(bits.get<std::uint64_t>()); }

json state_of(const Checkpoint& c) {
    const Plan& p = c.plan;
    json held_out = json::array();
    for (const Measured& m : c.held_out) held_out.push_back({m.step, std::bit_cast<std::uint64_t>(m.loss)});
    return {{"layers", p.sizes.layers},
            {"heads", p.sizes.heads},
            {"head_dim", p.sizes.head_dim},
            {"context", p.sizes.context},
            {"steps", p.steps},
            {"batch", p.batch},
            {"rate", std::bit_cast<std::uint64_t>(p.rate)},
            {"seed", p.seed},
            {"half", p.half},
            {"step", c.step},
            {"losses", bits_of(c.losses)},
            {"held_out", held_out}};
}

Checkpoint from_state(const json& s) {
    Checkpoint c;
    c.plan = {.sizes = {.layers = s.at("layers"),
                        .heads = s.at("heads"),
                        .head_dim = s.at("head_dim"),
                        .context = s.at("context")},
              .steps = s.at("steps"),
              .batch = s.at("batch"),
              .rate = from_bits(s.at("rate")),
              .seed = s.at("seed"),
              .half = s.at("half")};
    c.step = s.at("step");
    for (const json& loss : s.at("losses")) c.losses.push_back(from_bits(loss));
    for (const json& m : s.at("held_out")) c.held_out.push_back({m.at(0), from_bits(m.at(1))});
    return c;
}

std::string_view bytes_of(const torch::Tensor& tensor) {
    return {static_cast<const char*>(tensor.data_ptr()), std::size_t(tensor.numel()) * sizeof(float)};
}

}  // namespace

void write_whole(const fs::path& file, std::string_view bytes) {
    const fs::path unfinished = file.string() + ".unfinished";
    {
        Open open(unfinished, O_WRONLY | O_CREAT | O_TRUNC);
        open.write(bytes);
        open.to_the_disk();  // before the name says that all of it is there
    }
    fs::rename(unfinished, file);
    Open(fs::absolute(file).parent_path(), O_RDONLY | O_DIRECTORY).to_the_disk();  // the name, too
}

void write_checkpoint(const fs::path& file, const Checkpoint& checkpoint) {
    const std::array<torch::Tensor, 3> tensors = {checkpoint.weights, checkpoint.mean, checkpoint.square};
    std::string data;
    json header;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const std::size_t begin = data.size();
        data += bytes_of(tensors[i]);
        header[kTensors[i]] = {
            {"dtype", "F32"}, {"shape", {tensors[i].numel()}}, {"data_offsets", {begin, data.size()}}};
    }
    const std::string state = state_of(checkpoint).dump();
    header["__metadata__"] = {
        {"program", kProgram}, {"state", state}, {"sum", fmt::format("{:016x}", sum_of(data) ^ sum_of(state))}};
    const std::string text = header.dump();
    const std::uint64_t length = text.size();
    std::string whole(reinterpret_cast<const char*>(&length), kLengthBytes);
    whole += text;
    whole += data;
    write_whole(file, whole);
}

Checkpoint read_checkpoint(const fs::path& file) {
    std::ifstream stream(file, std::ios::binary);
    if (!stream)
        throw std::runtime_error(
            fmt::format("training: there is no checkpoint {}; train a model first, or name its folder "
                        "with --out",
                        file.string()));
    const std::string whole(std::istreambuf_iterator<char>(stream), {});
    std::uint64_t length = 0;
    if (whole.size() >= kLengthBytes) std::memcpy(&length, whole.data(), kLengthBytes);
    if (whole.size() < kLengthBytes || length > whole.size() - kLengthBytes)
        reject(file, "it is cut off in its header");
    const std::string_view data = std::string_view(whole).substr(kLengthBytes + length);
    const json header = json::parse(whole.begin() + kLengthBytes, whole.begin() + std::ptrdiff_t(kLengthBytes + length),
                                    nullptr, /*allow_exceptions=*/false);
    try {
        const json& metadata = header.at("__metadata__");
        if (metadata.at("program") != kProgram)
            reject(file, fmt::format("it was written by \"{}\", and this is \"{}\"",
                                     metadata.at("program").get<std::string>(), kProgram));
        const std::string state = metadata.at("state");
        if (metadata.at("sum") != fmt::format("{:016x}", sum_of(data) ^ sum_of(state)))
            reject(file, "it is damaged: the sum over its bytes is another one than when it was written");
        Checkpoint result = from_state(json::parse(state));
        const std::array<torch::Tensor*, 3> tensors = {&result.weights, &result.mean, &result.square};
        for (std::size_t i = 0; i < tensors.size(); ++i) {
            const json& entry = header.at(kTensors[i]);
            const std::size_t begin = entry.at("data_offsets").at(0), end = entry.at("data_offsets").at(1);
            const std::int64_t count = entry.at("shape").at(0);
            if (begin > end || end > data.size() || end - begin != std::size_t(count) * sizeof(float))
                reject(file, fmt::format("it is damaged: \"{}\" does not fit into it", kTensors[i]));
            *tensors[i] = at::empty({count}, at::kFloat);
            std::memcpy(tensors[i]->data_ptr(), data.data() + begin, end - begin);
        }
        return result;
    } catch (const json::exception&) {
        reject(file, "it is damaged: its header is not what this program writes");
    }
}

}  // namespace ladder::training
