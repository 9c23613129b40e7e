// Files of results: a measurement is a line, and nothing is lost.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/records/compact.h"

namespace ladder {
namespace {

using Json = nlohmann::ordered_json;

TEST(CompactText, WhatFitsALineStandsOnOne) {
    const Json measurement = {{"name", "fa2"}, {"milliseconds", {{"median", 1.5}, {"samples", 3}}}, {"right", true}};
    EXPECT_EQ(compact_text({{"commit", "abc"}, {"empty", Json::array()}, {"measurements", {measurement, measurement}}}),
              "{\n"
              " \"commit\": \"abc\",\n"
              " \"empty\": [],\n"
              " \"measurements\": [{\"name\": \"fa2\", \"milliseconds\": {\"median\": 1.5, \"samples\": 3}, \"right\": "
              "true}, "
              "{\"name\": \"fa2\", \"milliseconds\": {\"median\": 1.5, \"samples\": 3}, \"right\": true}]\n"
              "}\n");
}

TEST(CompactText, WhatIsLongerOpensUp) {
    const Json record = {{"name", std::string(700, 'a')}};
    const std::string text = compact_text({{"records", {record, record}}});
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6);
    EXPECT_NE(text.find("\n  {\"name\": \"a"), std::string::npos);
}

TEST(CompactText, TextThatIsNoUnicodeIsReplaced) { EXPECT_NO_THROW(Json::parse(compact_text({{"report", "\xff"}}))); }

/// Also those that compact.py has written.
TEST(CompactText, RecordedResultsAreCompact) {
    int files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(LADDER_SOURCE_DIR "/docs/results")) {
        if (entry.path().extension() != ".json") continue;
        std::ifstream stream(entry.path());
        const std::string recorded{std::istreambuf_iterator<char>(stream), {}};
        const std::string text = compact_text(Json::parse(recorded));
        EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), std::count(recorded.begin(), recorded.end(), '\n'))
            << entry.path() << ": python3 common/records/compact.py writes it anew";
        EXPECT_EQ(Json::parse(text), Json::parse(recorded));
        ++files;
    }
    EXPECT_GT(files, 5);
}

}  // namespace
}  // namespace ladder
