#include "common/classroom/judge/record.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "common/classroom/judge/recording.h"
#include "common/classroom/judge/tensors.h"
#include "common/classroom/judge/trials.h"
#include "common/reference/comparison_notes.h"

namespace ladder::classroom {
namespace {

using nlohmann::json;
using reference::Held;

/// What is known of the outputs of a problem, in their order.
using Outputs = std::vector<std::optional<Held>>;

struct Answers {
    Outputs right;                                 ///< with their bounds
    std::map<std::string, Outputs> mistakes = {};  ///< by name
};

std::vector<std::byte> bytes_of(const torch::Tensor& tensor) {
    const torch::Tensor rows = tensor.contiguous();
    const auto* data = static_cast<const std::byte*>(rows.data_ptr());
    return {data, data + rows.nbytes()};
}

/// Comparisons call a gradient "dq", the problem "dQ".
std::string small(std::string name) {
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return char(std::tolower(c)); });
    return name;
}

class Recorder {
  public:
    explicit Recorder(const Trial& trial) : trial_(trial) {
        for (const json& output : trial.problem.words.at("outputs")) {
            names_.push_back(small(output.at("name")));
            empty_.push_back(empty_output(trial.problem, names_.size() - 1));
        }
    }

    /// The right results, and what known mistakes give. Some mistakes show in all outputs and others in a few, so all
    /// of these are tried: outputs that hold nothing but NaN, and outputs of which some are right.
    Answers answers() const {
        Answers found{.right = Outputs(names_.size())};
        for (std::size_t chosen = 0; chosen + 1 < std::size_t{1} << names_.size(); ++chosen) {
            Outputs given(names_.size());
            for (std::size_t n = 0; n < names_.size(); ++n)
                if (chosen >> n & 1) given[n] = found.right[n];
            reference::ComparisonNotes notes;
            for (const auto& [name, outputs] : found.mistakes) notes.known.insert(name);
            trial_.examine(reply(given));
            for (const Held& held : notes.held) {
                const auto n = place_of(held.name);
                if (!n) continue;
                if (!held.about.empty())
                    found.mistakes.try_emplace(held.about, given).first->second[*n] = held;
                else if (!found.right[*n])
                    found.right[*n] = held;
            }
        }
        return found;
    }

  private:
    std::optional<std::size_t> place_of(const std::string& name) const {
        const auto found = std::ranges::find(names_, small(name));
        if (found == names_.end()) return {};
        return std::size_t(found - names_.begin());
    }

    Message reply(const Outputs& outputs) const {
        Message message;
        for (std::size_t n = 0; n < names_.size(); ++n)
            message.blobs.push_back(
                bytes_of(outputs[n] ? outputs[n]->expected.to(empty_[n].scalar_type()) : empty_[n]));
        return message;
    }

    const Trial& trial_;
    std::vector<std::string> names_;
    std::vector<torch::Tensor> empty_;  // nothing but NaN
};

std::vector<std::byte> sample_of(const Held& held) {
    const torch::Tensor values = held.expected.reshape({-1}), bounds = held.bound.reshape({-1});
    std::vector<int64_t> places;
    for (const std::size_t place : sampled(std::size_t(values.numel()))) places.push_back(int64_t(place));
    const torch::Tensor index = torch::tensor(places);
    return bytes_of(at::stack({values.index_select(0, index), bounds.index_select(0, index)}));
}

json recorded(const Trial& trial, std::vector<std::vector<std::byte>>& blobs) {
    json words{{"property", trial.property},
               {"title", title_of_property(trial.property)},
               {"name", trial.name},
               {"sizes", trial.sizes},
               {"problem", trial.problem.words},
               {"asked", json::array()},
               {"mistaken", trial.mistaken},
               {"mistakes", json::array()}};
    for (const Asked& asked : trial.asked)
        words["asked"].push_back(
            {{"name", asked.name}, {"value", asked.value}, {"what", asked.what}, {"why", asked.why}});
    blobs.insert(blobs.end(), trial.problem.blobs.begin(), trial.problem.blobs.end());
    if (trial.problem.words.at("outputs").empty()) return words;

    const Answers answers = Recorder(trial).answers();
    for (const std::optional<Held>& held : answers.right) {
        if (!held) throw std::logic_error("a result of " + trial.name + " is compared with nothing");
        blobs.push_back(bytes_of(at::stack({held->expected, held->bound.expand_as(held->expected)})));
    }
    for (const auto& [name, outputs] : answers.mistakes) {
        words["mistakes"].push_back(name);
        for (const std::optional<Held>& held : outputs)
            blobs.push_back(held ? sample_of(*held) : std::vector<std::byte>());
    }
    return words;
}

}  // namespace

std::string record(const json& suite, std::uint64_t seed, const std::string& folder) {
    Message recording;
    recording.words["trials"] = json::array();
    for (const Trial& trial : trials_of(suite, seed))
        recording.words["trials"].push_back(recorded(trial, recording.blobs));
    // Under a name of this process's own until it is complete: another may read or record the same.
    const std::string name = recording_of(suite), path = folder + "/" + name + "." + std::to_string(::getpid());
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0) throw std::system_error(errno, std::generic_category(), path);
    write_all(file, encode(recording));
    ::close(file);
    std::filesystem::rename(path, folder + "/" + name);
    return name;
}

}  // namespace ladder::classroom
