#include "common/fixture/fixture.h"

#include <ATen/TensorIndexing.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace ladder {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

const std::filesystem::path kShipped =
    std::filesystem::path(LADDER_SOURCE_DIR) / "common/fixture/minilm_paragraph.safetensors";

class TemporaryFolder {
  public:
    TemporaryFolder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "ladder_fixture_XXXXXX").string();
        if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed for " + pattern);
        path_ = pattern;
    }
    ~TemporaryFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
};

/// A valid two-token fixture, in parts that a test can spoil before it is written.
struct SmallFixture {
    static constexpr std::int64_t kSequence = 2;
    static constexpr std::int64_t kTensorBytes = kFixtureHeads * kSequence * kFixtureHeadDim * 2;

    json header = {{"__metadata__", {{"description", "a small one"}, {"tokens", "two words"}}},
                   {"q", entry(0)},
                   {"k", entry(1)},
                   {"v", entry(2)}};
    std::vector<std::uint16_t> data = distinct_halfs();

    static json entry(std::int64_t index) {
        return {{"dtype", "F16"},
                {"shape", {1, kFixtureHeads, kSequence, kFixtureHeadDim}},
                {"data_offsets", {index * kTensorBytes, (index + 1) * kTensorBytes}}};
    }

    /// 0x3c00 is 1.0 in float16; counting up from it gives finite values that all differ.
    static std::vector<std::uint16_t> distinct_halfs() {
        std::vector<std::uint16_t> values(3 * kTensorBytes / 2);
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint16_t>(0x3c00 + i);
        return values;
    }

    std::string bytes() const { return bytes_with_header(header.dump()); }

    std::string bytes_with_header(std::string_view text) const {
        const std::uint64_t length = text.size();
        std::string result(sizeof(length), '\0');
        std::memcpy(result.data(), &length, sizeof(length));
        result += text;
        return result.append(reinterpret_cast<const char*>(data.data()), data.size() * sizeof(data[0]));
    }
};

class FixtureFile : public testing::Test {
  protected:
    std::filesystem::path write(std::string_view bytes) {
        const auto file = folder_.path() / "spoiled.safetensors";
        std::ofstream stream(file, std::ios::binary);
        stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        if (!stream.flush()) throw std::runtime_error("cannot write " + file.string());
        return file;
    }

    static std::string error_for(const std::filesystem::path& file) {
        try {
            load_fixture(file);
        } catch (const std::runtime_error& error) {
            return error.what();
        }
        return "no error";
    }

    /// Every message names the file, says what is accepted, and what to do; `problem` is what this file got wrong.
    void expect_rejected(const std::filesystem::path& file, const std::string& problem) {
        EXPECT_THAT(error_for(file), AllOf(HasSubstr(file.string()), HasSubstr(problem), HasSubstr("Accepted is "),
                                           HasSubstr("make_fixture.py")));
    }

    TemporaryFolder folder_;
    SmallFixture small_;
};

torch::Tensor attention_weights(const Fixture& fixture) {
    const auto scores = torch::matmul(fixture.q.to(torch::kDouble), fixture.k.to(torch::kDouble).transpose(-2, -1));
    return torch::softmax(scores / std::sqrt(static_cast<double>(kFixtureHeadDim)), -1);
}

TEST(ShippedFixture, HasTheShapeOfTwelveHeads) {
    const auto fixture = load_fixture(kShipped);
    const auto sequence = static_cast<std::int64_t>(fixture.tokens.size());
    for (const auto& tensor : {fixture.q, fixture.k, fixture.v}) {
        EXPECT_EQ(tensor.sizes(), (std::vector<std::int64_t>{1, kFixtureHeads, sequence, kFixtureHeadDim}));
        EXPECT_EQ(tensor.scalar_type(), torch::kFloat);
        EXPECT_TRUE(tensor.device().is_cpu());
        EXPECT_TRUE(tensor.is_contiguous());
        EXPECT_TRUE(torch::isfinite(tensor).all().item<bool>());
        EXPECT_TRUE(torch::equal(tensor.to(torch::kHalf).to(torch::kFloat), tensor)) << "values must be exact in f16";
    }
}

TEST(ShippedFixture, IsOneParagraphThatEndsInAPartialTile) {
    const auto fixture = load_fixture(kShipped);
    EXPECT_GE(fixture.tokens.size(), 200u);
    EXPECT_NE(fixture.tokens.size() % 16, 0u);
    EXPECT_EQ(fixture.tokens.front(), "[CLS]");
    EXPECT_EQ(fixture.tokens.back(), "[SEP]");
    EXPECT_THAT(fixture.tokens, testing::Contains("librarian"));
    EXPECT_THAT(fixture.description, HasSubstr("all-MiniLM-L6-v2"));
    EXPECT_THAT(fixture.description, HasSubstr(std::to_string(fixture.tokens.size())));
}

TEST(ShippedFixture, FitsTheSizeLimit) { EXPECT_LE(std::filesystem::file_size(kShipped), kMaxFixtureBytes); }

TEST(ShippedFixture, AttentionIsFarFromUniform) {
    const auto fixture = load_fixture(kShipped);
    const auto weights = attention_weights(fixture);
    const auto row_entropy = -(weights * weights.clamp_min(1e-300).log()).sum(-1);
    const auto by_head = row_entropy.mean(-1) / std::log(static_cast<double>(fixture.tokens.size()));
    EXPECT_LT(by_head.mean().item<double>(), 0.6);
    EXPECT_LT(by_head.min().item<double>(), 0.25) << "one head should look at almost a single word";
    EXPECT_GT(by_head.max().item<double>(), 0.75) << "one head should look at many words";
}

/// A head that looks at the next word exists only if q, k, the heads and the word order are all what they claim to be.
TEST(ShippedFixture, OneHeadLooksAtTheNextWord) {
    const auto weights = attention_weights(load_fixture(kShipped));
    const auto next_word = weights.diagonal(/*offset=*/1, /*dim1=*/-2, /*dim2=*/-1);
    const auto by_head = next_word.mean(-1);
    EXPECT_GT(by_head.max().item<double>(), 0.5);
    EXPECT_LT(by_head.median().item<double>(), 0.1);
}

TEST_F(FixtureFile, ReadsEveryValueWhereTheHeaderPutsIt) {
    std::swap(small_.header["q"]["data_offsets"], small_.header["v"]["data_offsets"]);
    const auto fixture = load_fixture(write(small_.bytes()));
    EXPECT_EQ(fixture.tokens, (std::vector<std::string>{"two", "words"}));
    EXPECT_EQ(fixture.description, "a small one");
    // From 1.0 on, one float16 step is 2^-10 until 2.0 doubles it; v is stored first here.
    EXPECT_EQ(fixture.v.index({0, 0, 0, 0}).item<float>(), 1.0f);
    EXPECT_EQ(fixture.v.index({0, 0, 1, 5}).item<float>(), 1.0f + 37.0f / 1024);
    EXPECT_EQ(fixture.v.index({0, 1, 0, 0}).item<float>(), 1.0f + 64.0f / 1024);
    EXPECT_EQ(fixture.k.index({0, 0, 0, 0}).item<float>(), 1.0f + 768.0f / 1024);
    EXPECT_EQ(fixture.q.index({0, 0, 0, 0}).item<float>(), 2.0f + 512.0f / 512);
}

TEST_F(FixtureFile, MissingFileIsRejected) {
    expect_rejected(folder_.path() / "nowhere.safetensors", "there is no such file");
}

TEST_F(FixtureFile, FolderIsRejected) { expect_rejected(folder_.path(), "it is not a regular file"); }

TEST_F(FixtureFile, TooLargeFileIsRejected) {
    const auto file = write(small_.bytes());
    std::filesystem::resize_file(file, kMaxFixtureBytes + 1);
    expect_rejected(file, "it has 1048577 bytes");
}

TEST_F(FixtureFile, EveryTruncationIsRejected) {
    const auto whole = small_.bytes();
    const auto file = write(whole);
    ASSERT_NO_THROW(load_fixture(file));
    for (std::size_t length = whole.size(); length-- > 0;) {
        std::filesystem::resize_file(file, length);
        ASSERT_THAT(error_for(file), HasSubstr("make_fixture.py")) << "cut to " << length << " bytes";
    }
}

TEST_F(FixtureFile, TruncatedLengthFieldIsRejected) { expect_rejected(write("1234567"), "it has only 7 bytes"); }

TEST_F(FixtureFile, HeaderLongerThanTheFileIsRejected) {
    auto bytes = small_.bytes();
    bytes.replace(0, 8, 8, '\xff');
    expect_rejected(write(bytes), "its header claims 18446744073709551615 bytes");
}

TEST_F(FixtureFile, OtherFormatsAreRejected) {
    for (const char* header : {"", "{", "[]", "null", "{} {}", "{\"q\": \xff}"})
        expect_rejected(write(small_.bytes_with_header(header)), "its header is not a JSON object");
}

TEST_F(FixtureFile, MissingMetadataIsRejected) {
    for (const char* name : {"tokens", "description"}) {
        for (const json& metadata : {json{{"other", "text"}}, json{{name, 7}}, json("text"), json(nullptr)}) {
            auto spoiled = small_;
            spoiled.header["__metadata__"] = metadata;
            expect_rejected(write(spoiled.bytes()), "in its __metadata__");
        }
        auto spoiled = small_;
        spoiled.header["__metadata__"].erase(name);
        expect_rejected(write(spoiled.bytes()), std::string("no text \"") + name + "\"");
    }
    small_.header.erase("__metadata__");
    expect_rejected(write(small_.bytes()), "in its __metadata__");
}

TEST_F(FixtureFile, EmptyTokensAreRejected) {
    small_.header["__metadata__"]["tokens"] = "  ";
    expect_rejected(write(small_.bytes()), "its metadata \"tokens\" is empty");
}

TEST_F(FixtureFile, MissingTensorIsRejected) {
    for (const char* name : {"q", "k", "v"}) {
        auto spoiled = small_;
        spoiled.header.erase(name);
        expect_rejected(write(spoiled.bytes()), std::string("it has no tensor \"") + name + "\"");
    }
}

TEST_F(FixtureFile, WrongDtypeIsRejected) {
    for (const json& dtype : {json("F32"), json("BF16"), json(16), json(nullptr)}) {
        auto spoiled = small_;
        spoiled.header["k"]["dtype"] = dtype;
        expect_rejected(write(spoiled.bytes()), "tensor \"k\" has dtype " + dtype.dump());
    }
    small_.header["k"].erase("dtype");
    expect_rejected(write(small_.bytes()), "tensor \"k\" has dtype missing");
}

TEST_F(FixtureFile, WrongShapeIsRejected) {
    const auto wrong = {json{1, 12, 2, 64}, json{1, 2, 12, 32}, json{1, 12, 3, 32},  json{12, 2, 32},     json::array(),
                        json(768),          json("1"),          json{1, 12, -2, 32}, json{1, 12, 2.0, 32}};
    for (const json& shape : wrong) {
        auto spoiled = small_;
        spoiled.header["v"]["shape"] = shape;
        expect_rejected(write(spoiled.bytes()), "tensor \"v\" has shape " + shape.dump());
    }
    small_.header["v"].erase("shape");
    expect_rejected(write(small_.bytes()), "tensor \"v\" has shape missing");
}

TEST_F(FixtureFile, OffsetsOutOfRangeAreRejected) {
    constexpr auto kBytes = SmallFixture::kTensorBytes;
    const auto wrong = {json{2 * kBytes + 2, 3 * kBytes + 2},
                        json{3 * kBytes, 2 * kBytes},
                        json{2 * kBytes, 3 * kBytes - 2},
                        json{-kBytes, 0},
                        json{std::uint64_t(-kBytes), 0},
                        json{2 * kBytes},
                        json{2 * kBytes, 3 * kBytes, 0},
                        json("0"),
                        json(nullptr)};
    for (const json& offsets : wrong) {
        auto spoiled = small_;
        spoiled.header["v"]["data_offsets"] = offsets;
        expect_rejected(write(spoiled.bytes()), "tensor \"v\" has data_offsets " + offsets.dump());
    }
    small_.header["v"].erase("data_offsets");
    expect_rejected(write(small_.bytes()), "tensor \"v\" has data_offsets missing");
}

TEST_F(FixtureFile, OverlapsAndGapsAreRejected) {
    auto overlapping = small_;
    overlapping.header["k"]["data_offsets"] = overlapping.header["q"]["data_offsets"];
    expect_rejected(write(overlapping.bytes()), "do not cover");

    auto surplus = small_;
    surplus.data.push_back(0x3c00);
    expect_rejected(write(surplus.bytes()), "do not cover");
}

TEST_F(FixtureFile, NonFiniteValuesAreRejected) {
    for (const auto value : std::to_array<std::uint16_t>({0x7c00, 0xfc00, 0x7e00})) {
        auto spoiled = small_;
        spoiled.data[100] = value;
        expect_rejected(write(spoiled.bytes()), "a NaN or an infinity");
    }
}

}  // namespace
}  // namespace ladder
