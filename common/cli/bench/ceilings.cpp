#include "common/cli/bench/ceilings.h"

#include <ATen/ops/mm.h>
#include <fmt/format.h>

#include <functional>
#include <string>

#include "common/cli/bench/device_state.h"

namespace ladder::cli::bench {
namespace {

using Calls = std::vector<std::function<void()>>;

/// Does what it is asked with two sets of operands in turn.
class Alternating {
  public:
    template <class Make>
    explicit Alternating(const Make& make) : sets_{make(), make()} {}
    const torch::Tensor& next() { return sets_[++turn_ % 2]; }

  private:
    torch::Tensor sets_[2];
    unsigned turn_ = 0;
};

Ceiling gemm(const std::string& name, torch::ScalarType dtype, std::int64_t n, torch::Device device,
             const Effort& effort) {
    const auto options = at::TensorOptions().device(device);
    const auto make = [&] { return at::randn({n, n}, options).to(dtype); };
    Alternating left(make);
    const torch::Tensor right = make();
    torch::Tensor out = at::empty({n, n}, options.dtype(dtype));
    const Samples samples = time_interleaved({[&] { at::mm_out(out, left.next(), right); }}, device, effort).front();
    return {.name = name,
            .what = fmt::format("{0} x {0} by {0} x {0}{1}", n, dtype == torch::kFloat32 ? ", without tf32" : ""),
            .unit = Unit::tflops,
            .amount = 2.0 * double(n) * double(n) * double(n),
            .milliseconds = spread_of(samples.milliseconds)};
}

Ceiling copy(std::int64_t bytes, torch::Device device, const Effort& effort) {
    const auto options = at::TensorOptions().device(device).dtype(torch::kFloat32);
    Alternating from([&] { return at::zeros({bytes / 4}, options); });
    torch::Tensor to = at::empty({bytes / 4}, options);
    const Samples samples = time_interleaved({[&] { to.copy_(from.next()); }}, device, effort).front();
    return {.name = "copy",
            .what = fmt::format("{} MiB, read and written", bytes >> 20),
            .unit = Unit::gb_s,
            .amount = 2.0 * double(bytes),
            .milliseconds = spread_of(samples.milliseconds)};
}

/// Reductions differ in how near they come to the memory's limit, so several are tried.
Ceiling read(std::int64_t bytes, torch::Device device, const Effort& effort) {
    const auto options = at::TensorOptions().device(device).dtype(torch::kFloat32);
    Alternating from([&] { return at::randn({bytes / 4}, options); });
    const char* names[] = {"sum", "maximum", "dot product"};
    const Calls calls = {[&] { from.next().sum(); }, [&] { from.next().max(); },
                         [&] {
                             const torch::Tensor& x = from.next();
                             at::dot(x.narrow(0, 0, bytes / 8), x.narrow(0, bytes / 8, bytes / 8));
                         }};
    const std::vector<Samples> samples = time_interleaved(calls, device, effort);
    Ceiling best;
    for (std::size_t i = 0; i < samples.size(); ++i) {
        const Ceiling one{.name = "read",
                          .what = fmt::format("{} MiB, by a {}", bytes >> 20, names[i]),
                          .unit = Unit::gb_s,
                          .amount = double(bytes),
                          .milliseconds = spread_of(samples[i].milliseconds)};
        if (best.name.empty() || one.rate() > best.rate()) best = one;
    }
    return best;
}

}  // namespace

std::vector<Ceiling> measure_ceilings(torch::Device device, bool quick, const Effort& effort) {
    const bool gpu = device.is_cuda();
    const std::int64_t n = gpu ? (quick ? 4096 : 8192) : 256;
    const std::int64_t bytes = std::int64_t{gpu ? 1024 : 32} << 20;
    std::vector<Ceiling> ceilings;
    const auto attempt = [&](const std::string& name, Unit unit, const std::function<Ceiling()>& measure) {
        try {
            ceilings.push_back(measure());
            release_cached_memory(device);
        } catch (const std::exception& error) {
            ceilings.push_back({.name = name, .unit = unit, .not_available = short_reason(error)});
        }
    };
    attempt("gemm_f32", Unit::tflops, [&] { return gemm("gemm_f32", torch::kFloat32, n, device, effort); });
    attempt("gemm_bf16", Unit::tflops, [&] { return gemm("gemm_bf16", torch::kBFloat16, n, device, effort); });
    attempt("copy", Unit::gb_s, [&] { return copy(bytes, device, effort); });
    attempt("read", Unit::gb_s, [&] { return read(bytes, device, effort); });
    return ceilings;
}

}  // namespace ladder::cli::bench
