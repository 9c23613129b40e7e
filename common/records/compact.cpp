#include "common/records/compact.h"

#include <cstddef>

namespace ladder {
namespace {

using Json = nlohmann::ordered_json;

/// Long enough for one measurement, with its quartiles, its verdict and its launches.
constexpr std::size_t kLineLength = 1280;

std::string on_one_line(const Json& json) {
    if (!json.is_structured() || json.empty()) return json.dump(-1, ' ', false, Json::error_handler_t::replace);
    std::string text;
    for (const auto& item : json.items()) {
        text += text.empty() ? "" : ", ";
        if (json.is_object()) text += Json(item.key()).dump() + ": ";
        text += on_one_line(item.value());
    }
    return json.is_object() ? "{" + text + "}" : "[" + text + "]";
}

/// `first`: what stands before it on its first line.
void append(std::string& text, const Json& json, std::size_t indent, std::size_t first) {
    const std::string line = on_one_line(json);
    // The outermost opens up whatever its length: a file of one line would say nothing in a comparison.
    if (!json.is_structured() || json.empty() || (indent > 0 && first + line.size() <= kLineLength)) {
        text += line;
        return;
    }
    text += json.is_object() ? "{" : "[";
    const std::string margin(indent + 1, ' ');
    std::size_t left = json.size();
    for (const auto& item : json.items()) {
        const std::string key = json.is_object() ? Json(item.key()).dump() + ": " : "";
        text += "\n" + margin + key;
        append(text, item.value(), indent + 1, margin.size() + key.size());
        if (--left > 0) text += ",";
    }
    text += "\n" + std::string(indent, ' ') + (json.is_object() ? "}" : "]");
}

}  // namespace

std::string compact_text(const Json& json) {
    std::string text;
    append(text, json, 0, 0);
    return text + "\n";
}

}  // namespace ladder
