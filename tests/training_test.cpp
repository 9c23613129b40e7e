#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "common/reference/checks.h"
#include "common/reference/test_device.h"
#include "common/training/checkpoint.h"
#include "common/training/corpus.h"
#include "common/training/curve.h"
#include "common/training/draw.h"
#include "common/training/generate.h"
#include "common/training/trainer.h"

namespace ladder::training {
namespace {

using reference::test_device;
using reference::throws_mentioning;
namespace fs = std::filesystem;

/// A text with something to learn: each byte follows from the one before, now and then not.
Corpus small_corpus() {
    const auto text = [](std::uint64_t seed) {
        const torch::Tensor bytes = at::empty({4000}, at::kByte);
        auto* at = static_cast<unsigned char*>(bytes.data_ptr());
        for (std::uint64_t i = 0; i < 4000; ++i)
            at[i] = static_cast<unsigned char>(i == 0 || drawn(seed, i) % 8 == 0 ? 'a' + drawn(seed, 4000 + i) % 16
                                                                                 : 'a' + (at[i - 1] - 'a' + 5) % 16);
        return bytes;
    };
    return {.training = text(1), .held_out = text(2), .files = 2};
}

const Plan kPlan{
    .sizes = {.layers = 2, .heads = 2, .head_dim = 8, .context = 24}, .steps = 24, .batch = 4, .rate = 1e-2, .seed = 5};

struct Folder {
    Folder() : path(fs::temp_directory_path() / ("training_test_" + std::to_string(::getpid()))) {
        fs::create_directories(path);
    }
    ~Folder() { fs::remove_all(path); }
    fs::path path;
};

std::vector<double> losses_of(const Plan& plan, const Corpus& corpus, const Attention& attention) {
    Trainer trainer(plan, corpus, test_device(), attention);
    while (!trainer.done()) trainer.step();
    return trainer.losses();
}

double mean_distance(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
    return sum / double(a.size());
}

// ---- Learning ------------------------------------------------------------------------------------------------------

TEST(Training, LearnsAsItDoesWithPyTorchsAttention) {
    const Corpus corpus = small_corpus();
    Plan other_seed = kPlan;
    other_seed.seed = 6;
    const std::vector<double> ours = losses_of(kPlan, corpus, own_attention),
                              pytorchs = losses_of(kPlan, corpus, pytorch_attention),
                              others = losses_of(other_seed, corpus, pytorch_attention);
    EXPECT_NEAR(ours.front(), std::log(256), 0.1) << "fresh weights know nothing";
    EXPECT_LT(ours.back(), ours.front() - 1) << "it learns";
    // Another seed is another run. Another attention is the same one, but for rounding.
    EXPECT_LT(mean_distance(ours, pytorchs), 0.01 * mean_distance(others, pytorchs));
    EXPECT_GT(mean_distance(others, pytorchs), 0.01);
}

TEST(Training, SeesNoLaterByte) {
    const Gpt model(kPlan.sizes, 1, test_device(), at::kFloat, own_attention);
    const at::NoGradGuard no_gradients;
    const torch::Tensor tokens = at::randint(256, {2, 24}, at::kLong).to(test_device());
    torch::Tensor changed = tokens.clone();
    changed.narrow(1, 15, 9).fill_(7);
    const torch::Tensor before = model.logits(tokens), after = model.logits(changed);
    EXPECT_TRUE(at::allclose(before.narrow(1, 0, 15), after.narrow(1, 0, 15), 1e-5, 1e-5));
    EXPECT_FALSE(at::allclose(before.narrow(1, 15, 9), after.narrow(1, 15, 9), 1e-2, 1e-2));
}

/// The one place where a gradient could get lost: in the pieces of one tensor.
TEST(Training, EveryWeightHasAGradient) {
    const Corpus corpus = small_corpus();
    Trainer trainer(kPlan, corpus, test_device(), own_attention);
    trainer.step();
    for (const Weight& part : trainer.model().parts()) {
        EXPECT_GT(part.value.grad().abs().max().item<double>(), 0.0) << part.name;
        EXPECT_EQ(part.value.grad().data_ptr(), part.value.mutable_grad().data_ptr());
    }
    EXPECT_GT(trainer.model().gradients().abs().max().item<double>(), 0.0);
}

/// A step of AdamW on numbers that are small enough for paper: the first one goes by the rate, whatever the gradient.
TEST(Training, TheFirstStepGoesByTheRate) {
    const Gpt model({.layers = 1, .heads = 1, .head_dim = 4, .context = 4}, 1, test_device(), at::kFloat,
                    own_attention);
    const torch::Tensor before = model.weights().clone();
    model.gradients().fill_(1e-4);
    AdamW optimizer(model);
    optimizer.move(0.01, 0);
    const std::int64_t matrices = model.matrix_elements(), all = before.numel();
    const torch::Tensor expected = before.clone();
    expected.narrow(0, 0, matrices).mul_(1 - 0.001);
    expected.sub_(0.01);
    EXPECT_TRUE(at::allclose(model.weights().narrow(0, 0, matrices), expected.narrow(0, 0, matrices), 1e-3, 1e-5));
    EXPECT_TRUE(at::allclose(model.weights().narrow(0, matrices, all - matrices),
                             expected.narrow(0, matrices, all - matrices), 1e-3, 1e-5));
}

TEST(Training, TheRateRisesAndFalls) {
    EXPECT_LT(rate_at(0, 1000, 1.0), 0.02);
    EXPECT_NEAR(rate_at(100, 1000, 1.0), 1.0, 0.01);
    EXPECT_NEAR(rate_at(999, 1000, 1.0), 0.1, 0.01);
    for (std::int64_t i = 101; i < 1000; ++i) EXPECT_LE(rate_at(i, 1000, 1.0), rate_at(i - 1, 1000, 1.0));
}

// ---- Stopping and going on -----------------------------------------------------------------------------------------

TEST(Training, GoesOnAsIfItHadNeverStopped) {
    const Corpus corpus = small_corpus();
    const std::vector<double> whole = losses_of(kPlan, corpus, own_attention);
    const Folder folder;
    const fs::path file = folder.path / "checkpoint.safetensors";
    {
        Trainer first(kPlan, corpus, test_device(), own_attention);
        for (int i = 0; i < 11; ++i) first.step();
        first.note_held_out_loss(1);
        write_checkpoint(file, first.checkpoint());
        first.step();  // lost with whoever killed it
    }
    const Checkpoint kept = read_checkpoint(file);
    EXPECT_EQ(kept.plan, kPlan);
    EXPECT_EQ(kept.step, 11);
    ASSERT_EQ(kept.held_out.size(), 1u);
    EXPECT_EQ(kept.held_out[0].step, 11);
    Trainer second(kept, corpus, test_device(), own_attention);
    while (!second.done()) second.step();
    EXPECT_EQ(second.losses(), whole) << "not the same, bit for bit";
}

TEST(Training, ADamagedCheckpointIsRefusedInWords) {
    const Corpus corpus = small_corpus();
    const Folder folder;
    const fs::path file = folder.path / "checkpoint.safetensors";
    Trainer trainer(kPlan, corpus, test_device(), own_attention);
    trainer.step();
    write_checkpoint(file, trainer.checkpoint());
    std::ifstream stream(file, std::ios::binary);
    const std::string whole(std::istreambuf_iterator<char>(stream), {});
    const auto refused = [&](std::string bytes, const std::string& why) {
        std::ofstream(file, std::ios::binary) << bytes;
        EXPECT_TRUE(throws_mentioning([&] { read_checkpoint(file); }, {file.string(), why, "--restart"})) << why;
    };
    refused("", "cut off");
    refused(whole.substr(0, 5), "cut off");
    refused(whole.substr(0, 100), "cut off");
    refused(whole.substr(0, whole.size() - 1), "damaged");
    for (const std::size_t at : {std::size_t(9), whole.size() / 3, whole.size() / 2, whole.size() - 1}) {
        std::string bytes = whole;
        bytes[at] = char(bytes[at] ^ 4);
        refused(bytes, "damaged");
    }
    std::string other = whole;
    other.replace(other.find("version 1"), 9, "version 9");
    refused(other, "version 9");
    std::ofstream(file, std::ios::binary) << whole;
    EXPECT_EQ(read_checkpoint(file).step, 1);
    EXPECT_TRUE(throws_mentioning([&] { read_checkpoint(folder.path / "nothing"); }, {"no checkpoint", "--out"}));
}

/// What is there stays, until what is new is complete.
TEST(Training, AFileIsWrittenWholeOrNotAtAll) {
    const Folder folder;
    write_whole(folder.path / "a", "old");
    fs::create_directory(folder.path / "a.unfinished");  // nobody can write to that
    EXPECT_TRUE(
        throws_mentioning([&] { write_whole(folder.path / "a", "new"); }, {"a.unfinished", "cannot be opened"}));
    std::string text;
    std::ifstream(folder.path / "a") >> text;
    EXPECT_EQ(text, "old");
}

// ---- Writing -------------------------------------------------------------------------------------------------------

TEST(Generating, ACacheChangesNothing) {
    const Corpus corpus = small_corpus();
    Trainer trainer(kPlan, corpus, test_device(), own_attention);
    while (!trainer.done()) trainer.step();
    for (const double temperature : {0.0, 0.8}) {
        Sampling sampling{.bytes = 60, .temperature = temperature, .seed = 3};  // beyond the context of 24
        const std::string cached = continued(trainer.model(), "abcab", sampling);
        sampling.cached = false;
        EXPECT_EQ(cached, continued(trainer.model(), "abcab", sampling));
        EXPECT_EQ(cached.size(), 60u);
    }
    Sampling sampling{.bytes = 5, .temperature = 0};
    EXPECT_EQ(continued(trainer.model(), "a prompt that is longer than the context of 24 bytes", sampling).size(), 5u);
}

TEST(Generating, LogitsOfACacheAreThoseOfTheWhole) {
    const Gpt model(kPlan.sizes, 1, test_device(), at::kFloat, own_attention);
    const at::NoGradGuard no_gradients;
    const torch::Tensor tokens = at::randint(256, {3, 24}, at::kLong).to(test_device());
    const torch::Tensor whole = model.logits(tokens);
    KvCache cache = model.cache(3);
    for (const auto& [begin, length] : {std::pair{0, 5}, {5, 1}, {6, 17}, {23, 1}}) {
        const torch::Tensor part = model.logits(tokens.narrow(1, begin, length), &cache);
        EXPECT_TRUE(at::allclose(part, whole.narrow(1, begin, length), 1e-4, 1e-5)) << begin;
    }
    EXPECT_TRUE(throws_mentioning([&] { model.logits(tokens.narrow(1, 0, 1), &cache); }, {"25 tokens", "24"}));
}

TEST(Generating, RefusesInWords) {
    const Gpt model(kPlan.sizes, 1, test_device(), at::kFloat, own_attention);
    EXPECT_TRUE(throws_mentioning([&] { continued(model, ""); }, {"empty", "a few words"}));
    EXPECT_TRUE(throws_mentioning([&] { continued(model, "a", {.temperature = -1}); }, {"temperature", "-1"}));
    EXPECT_TRUE(throws_mentioning([&] { Gpt({.layers = 0}, 1, test_device(), at::kFloat, own_attention); },
                                  {"0 layers", "at least 1"}));
}

TEST(Generating, BytesThatAreNoTextAreMarked) {
    EXPECT_EQ(readable("τ × \n"), "τ × \n");
    EXPECT_EQ(readable("a\xCF"), "a\xEF\xBF\xBD");
    EXPECT_EQ(readable("\x84z\x1b[1m"), "\xEF\xBF\xBDz\xEF\xBF\xBD[1m");
}

// ---- What it reads -------------------------------------------------------------------------------------------------

TEST(CorpusOfTheRepository, IsThereAndHoldsSomeOut) {
    const Corpus corpus = read_corpus(LADDER_SOURCE_DIR);
    EXPECT_GT(corpus.files, 400);
    EXPECT_GT(corpus.training.numel(), 2'000'000);
    const double share = double(corpus.held_out.numel()) / double(corpus.training.numel() + corpus.held_out.numel());
    EXPECT_GT(share, 0.04);
    EXPECT_LT(share, 0.2);
    EXPECT_TRUE(at::equal(corpus.training, read_corpus(LADDER_SOURCE_DIR).training));
    const Folder folder;
    EXPECT_TRUE(throws_mentioning([&] { read_corpus(folder.path); }, {"0 chapters", "repository"}));
}

TEST(CorpusOfTheRepository, PiecesDependOnSeedAndStepAlone) {
    const torch::Tensor text = at::arange(200, at::kByte);
    const torch::Tensor batch = batch_of(text, 5, 9, 3, 7);
    EXPECT_EQ(batch.sizes(), (std::vector<std::int64_t>{5, 10}));
    EXPECT_TRUE((batch.narrow(1, 1, 9) == batch.narrow(1, 0, 9) + 1).all().item<bool>()) << "pieces are in one piece";
    EXPECT_TRUE(at::equal(batch, batch_of(text, 5, 9, 3, 7)));
    EXPECT_FALSE(at::equal(batch, batch_of(text, 5, 9, 3, 8)));
    EXPECT_FALSE(at::equal(batch, batch_of(text, 5, 9, 4, 7)));
    EXPECT_TRUE(throws_mentioning([&] { batch_of(text, 1, 200, 0, 0); }, {"200 bytes", "201"}));
}

TEST(LossCurve, DrawsWhatItIsGiven) {
    const std::string svg = curves_as_svg("Loss", {{"ours", "#112233", false, {{1, 5}, {2, 4}, {3, 2}}},
                                                   {"held out", "#445566", true, {{2, 4.5}}},
                                                   {"nobody", "#778899", false, {}}});
    for (const char* part : {"<svg", ">Loss<", ">ours<", "stroke=\"#112233\"", "<circle", "fill=\"#445566\"", "</svg>"})
        EXPECT_NE(svg.find(part), std::string::npos) << part;
    EXPECT_EQ(svg.find("nobody"), std::string::npos);
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(curves_as_svg("Loss", {{"one", "#112233", false, {{1, 5}}}}).find("nan"), std::string::npos);
    const auto points = smoothed({4, 2, 6}, 2);
    EXPECT_EQ(points[2], (std::pair{3.0, 4.0}));
}

}  // namespace
}  // namespace ladder::training
