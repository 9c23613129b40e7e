#include "common/training/corpus.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "common/training/draw.h"

namespace ladder::training {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 5> kSuffixes = {".md", ".cuh", ".h", ".cpp", ".py"};
constexpr std::uint64_t kHeldOutOf = 10;

bool is_read(const fs::path& below_root) {
    const std::string top = below_root.begin()->string();
    const bool in_folder = top == "common" || top == "docs" || top.starts_with("phase");
    return in_folder ? std::ranges::count(kSuffixes, below_root.extension().string()) > 0
                     : below_root.has_parent_path() == false && below_root.extension() == ".md";
}

/// The same on every machine. (FNV-1a)
std::uint64_t hash_of(std::string_view text) {
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (const unsigned char c : text) hash = (hash ^ c) * 0x100000001b3u;
    return hash;
}

torch::Tensor tensor_of(const std::string& bytes) {
    const torch::Tensor result = at::empty({std::int64_t(bytes.size())}, at::kByte);
    std::memcpy(result.data_ptr(), bytes.data(), bytes.size());
    return result;
}

}  // namespace

Corpus read_corpus(const fs::path& root) {
    std::vector<std::string> paths;
    for (auto entry = fs::recursive_directory_iterator(root); entry != fs::recursive_directory_iterator(); ++entry) {
        const fs::path path = fs::relative(entry->path(), root);
        const std::string name = path.filename().string();
        if (entry->is_directory() && (name.starts_with('.') || (entry.depth() == 0 && name.starts_with("build"))))
            entry.disable_recursion_pending();
        else if (entry->is_regular_file() && is_read(path))
            paths.push_back(path.generic_string());
    }
    std::ranges::sort(paths);

    std::string training, held_out;
    for (const std::string& path : paths) {
        std::ifstream file(root / path, std::ios::binary);
        std::string& part = drawn(hash_of(path), 0) % kHeldOutOf == 0 ? held_out : training;
        part.append(std::istreambuf_iterator<char>(file), {});
    }
    if (training.empty() || held_out.empty())
        throw std::runtime_error("training: " + root.string() + " has " + std::to_string(paths.size()) +
                                 " chapters, pages and sources; the model learns from those of the whole repository, "
                                 "run it there");
    return {.training = tensor_of(training), .held_out = tensor_of(held_out), .files = std::int64_t(paths.size())};
}

torch::Tensor batch_of(const torch::Tensor& text, std::int64_t count, std::int64_t length, std::uint64_t seed,
                       std::int64_t step) {
    if (text.numel() <= length)
        throw std::invalid_argument("training: the text has " + std::to_string(text.numel()) + " bytes, and a piece " +
                                    std::to_string(length + 1) + "; choose a shorter context");
    std::vector<torch::Tensor> pieces;
    for (std::int64_t i = 0; i < count; ++i) {
        const std::uint64_t number = drawn(seed, std::uint64_t(step * count + i));
        pieces.push_back(text.narrow(0, std::int64_t(number % std::uint64_t(text.numel() - length)), length + 1));
    }
    return at::stack(pieces).to(at::kLong);
}

}  // namespace ladder::training
