// The trials of a hand-out, whose judge has no libtorch: problems and answers that the full judge has recorded
// (recording.h). They are the same whatever the seed is.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>

#include "common/classroom/judge/plain_spread.h"
#include "common/classroom/judge/recording.h"
#include "common/classroom/judge/trials.h"
#include "common/simt/language/float16.h"

namespace ladder::classroom {
namespace {

using nlohmann::json;

/// The right elements of an output, or a sample of what a mistake gives, and how far off each may be.
struct Answer {
    std::vector<double> values, bounds;

    bool holds(std::size_t n, double got) const {
        if (std::isnan(values[n])) return std::isnan(got);
        if (std::isinf(values[n])) return got == values[n];
        return std::abs(got - values[n]) <= bounds[n];
    }
};

struct Mistake {
    std::string name;
    std::vector<Answer> outputs;
};

struct Recorded {
    json problem, asked, mistaken;
    std::vector<Answer> right = {};
    std::vector<Mistake> mistakes = {};
    std::int64_t rows_per_tile;
};

Answer answer_of(const std::vector<std::byte>& blob) {
    const std::size_t count = blob.size() / sizeof(double) / 2;
    Answer answer{std::vector<double>(count), std::vector<double>(count)};
    if (count == 0) return answer;
    std::memcpy(answer.values.data(), blob.data(), count * sizeof(double));
    std::memcpy(answer.bounds.data(), blob.data() + count * sizeof(double), count * sizeof(double));
    return answer;
}

template <class T>
std::vector<double> widened(std::span<const std::byte> bytes) {
    std::vector<double> values(bytes.size() / sizeof(T));
    for (std::size_t n = 0; n < values.size(); ++n) {
        T value;
        std::memcpy(&value, bytes.data() + n * sizeof(T), sizeof(T));
        values[n] = double(float(value));
    }
    return values;
}

std::vector<double> result_of(const Recorded& recorded, const Message& reply, std::size_t n) {
    const json& output = recorded.problem.at("outputs").at(n);
    const std::string type = output.at("type");
    std::vector<double> values;
    if (n < reply.blobs.size())
        values = type == "f16"    ? widened<simt::f16>(reply.blobs[n])
                 : type == "bf16" ? widened<simt::bf16>(reply.blobs[n])
                                  : widened<float>(reply.blobs[n]);
    if (values.size() != recorded.right[n].values.size())
        throw std::runtime_error("the reply lacks " + output.at("name").get<std::string>());
    return values;
}

bool resembles(const Mistake& mistake, const std::vector<std::vector<double>>& got) {
    for (std::size_t n = 0; n < got.size(); ++n) {
        const Answer& sample = mistake.outputs[n];
        if (sample.values.empty()) continue;
        const std::vector<std::size_t> places = sampled(got[n].size());
        for (std::size_t i = 0; i < places.size(); ++i)
            if (!sample.holds(i, got[n][places[i]])) return false;
    }
    return true;
}

/// The first output that is wrong says where; the others, whether they are right.
std::optional<Finding> examine_tensors(const Recorded& recorded, const Message& reply) {
    std::vector<std::vector<double>> got;
    std::vector<std::vector<bool>> wrong;
    std::optional<std::size_t> first;
    for (std::size_t n = 0; n < recorded.right.size(); ++n) {
        got.push_back(result_of(recorded, reply, n));
        wrong.emplace_back(got[n].size());
        for (std::size_t i = 0; i < got[n].size(); ++i) wrong[n][i] = !recorded.right[n].holds(i, got[n][i]);
        if (!first && std::ranges::find(wrong[n], true) != wrong[n].end()) first = n;
    }
    if (!first) return {};
    const auto name = [&](std::size_t n) { return recorded.problem.at("outputs").at(n).at("name").get<std::string>(); };
    const Spread spread = spread_of(name(*first),
                                    {.extents = recorded.problem.at("outputs").at(*first).at("extents"),
                                     .got = got[*first],
                                     .expected = recorded.right[*first].values,
                                     .wrong = wrong[*first]},
                                    recorded.rows_per_tile);
    Finding finding{.summary = name(*first) + " is wrong", .first = spread.first, .pattern = spread.pattern};
    for (std::size_t n = 0; n < got.size(); ++n) {
        const bool right = std::ranges::find(wrong[n], true) == wrong[n].end();
        if (n != *first) finding.pattern += "; " + name(n) + (right ? " is right" : " is wrong too");
    }
    for (const Mistake& mistake : recorded.mistakes)
        if (resembles(mistake, got)) {
            finding.lookalike = mistake.name;
            break;
        }
    return finding;
}

std::string number(double value) {
    std::string text = std::to_string(value);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.ends_with('.')) text.pop_back();
    return text;
}

std::optional<Finding> examine_numbers(const Recorded& recorded, const Message& reply) {
    const json answers = reply.words.value("answers", json::object());
    std::vector<double> got;
    std::optional<Finding> finding;
    for (const json& asked : recorded.asked) {
        const json answer = answers.value(asked.at("name").get<std::string>(), json());
        const double right = asked.at("value");
        got.push_back(answer.is_number() ? answer.get<double>() : std::nan(""));
        if (finding || std::abs(got.back() - right) <= 1e-9 * std::abs(right)) continue;
        finding = Finding{.summary = "another number is right",
                          .first = asked.at("what").get<std::string>() + ": got " + number(got.back()) + ", expected " +
                                   number(right),
                          .pattern = asked.at("why")};
    }
    for (const auto& [name, values] : recorded.mistaken.items())
        if (finding && !finding->lookalike && values.get<std::vector<double>>() == got) finding->lookalike = name;
    return finding;
}

Message read_recording(const json& suite) {
    const std::string path = std::string(CLASSROOM_ANSWERS) + "/" + recording_of(suite);
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) throw std::invalid_argument("this hand-out has no answers to the suite " + suite.dump());
    std::optional<Message> recording = decode(read_all(file));
    ::close(file);
    if (!recording) throw std::runtime_error(path + " is damaged: ask your teacher for the hand-out again");
    return std::move(*recording);
}

std::map<std::string, std::string>& titles() {
    static std::map<std::string, std::string> titles;
    return titles;
}

}  // namespace

std::string title_of_property(const std::string& property) { return titles().at(property); }

std::vector<std::string_view> known_mistakes() { return {}; }

std::vector<Trial> trials_of(const json& suite, std::uint64_t) {
    const Message recording = read_recording(suite);
    const bool tiled = suite.contains("tiles") && !suite.value("one_key_at_a_time", false);
    std::size_t next = 0;
    std::vector<Trial> trials;
    for (const json& words : recording.words.at("trials")) {
        Trial trial{.property = words.at("property"), .name = words.at("name"), .sizes = words.at("sizes")};
        titles()[trial.property] = words.at("title");
        trial.problem.words = words.at("problem");
        const json& problem = trial.problem.words;
        for (std::size_t n = 0; n < problem.at("inputs").size(); ++n)
            trial.problem.blobs.push_back(recording.blobs.at(next++));
        const auto recorded =
            std::make_shared<Recorded>(Recorded{.problem = problem,
                                                .asked = words.at("asked"),
                                                .mistaken = words.at("mistaken"),
                                                .rows_per_tile = tiled ? suite["tiles"][0].get<std::int64_t>() : 0});
        const std::size_t outputs = problem.at("outputs").size();
        for (std::size_t n = 0; n < outputs; ++n) recorded->right.push_back(answer_of(recording.blobs.at(next++)));
        for (const json& name : words.at("mistakes")) {
            Mistake& mistake = recorded->mistakes.emplace_back(Mistake{.name = name, .outputs = {}});
            for (std::size_t n = 0; n < outputs; ++n) mistake.outputs.push_back(answer_of(recording.blobs.at(next++)));
        }
        trial.examine = [recorded, outputs](const Message& reply) {
            return outputs ? examine_tensors(*recorded, reply) : examine_numbers(*recorded, reply);
        };
        trials.push_back(std::move(trial));
    }
    return trials;
}

}  // namespace ladder::classroom
