#include "common/cli/ring/rank.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>

#include "common/attention/attention.h"
#include "common/attention/machine.h"
#include "common/attention/rungs.h"
#include "common/distributed/all_to_all.h"
#include "common/reference/comparison.h"
#include "common/reference/gradient_comparison.h"
#include "common/reference/inputs.h"

#ifdef LADDER_WITH_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace ladder::cli::ring {
namespace {

using distributed::Group;

constexpr std::int64_t kCheckedRows = 128;        // at each end of an interval
constexpr std::int64_t kLongestGradients = 4096;  // whose oracle fits into memory

/// Sets the GPU of this rank, where it has one.
torch::Device device_of([[maybe_unused]] const distributed::Place& place, const Plan& plan) {
    if (!plan.on_gpus) return torch::kCPU;
#ifdef LADDER_WITH_CUDA
    if (place.local_rank >= c10::cuda::device_count())
        throw std::invalid_argument("ring: " + std::to_string(plan.ranks) + " ranks, and this machine has " +
                                    std::to_string(int(c10::cuda::device_count())) +
                                    " GPUs; each rank needs one of its own, or all take --device cpu");
    c10::cuda::set_device(c10::DeviceIndex(place.local_rank));
    return {torch::kCUDA, c10::DeviceIndex(place.local_rank)};
#else
    throw std::invalid_argument("ring: this build has no CUDA; use --device cpu");
#endif
}

void wait_for([[maybe_unused]] torch::Device device) {
#ifdef LADDER_WITH_CUDA
    if (device.is_cuda()) c10::cuda::device_synchronize();
#endif
}

/// Most bytes in use at a time on the device since the call before, beside those that were in use then.
std::int64_t peak_since([[maybe_unused]] torch::Device device) {
    std::int64_t peak = 0;
#ifdef LADDER_WITH_CUDA
    namespace allocator = c10::cuda::CUDACachingAllocator;
    static std::int64_t in_use = 0;
    if (device.is_cuda()) {
        peak = allocator::getDeviceStats(device.index()).allocated_bytes[0].peak - in_use;
        allocator::resetPeakStats(device.index());
        in_use = allocator::getDeviceStats(device.index()).allocated_bytes[0].current;
    }
#endif
    return peak;
}

constexpr int kTurns = 10;

/// Seconds of each of these calls, on all ranks at a time. They take turns, so that none has a cooler device than
/// another: of a few turns the median counts. `repeats` calls of each, over all turns.
std::vector<double> seconds_of(const Group& group, torch::Device device, int repeats,
                               const std::vector<std::function<void()>>& calls) {
    const int turns = std::min(repeats, kTurns);
    std::vector<std::vector<double>> samples(calls.size());
    for (int turn = 0; turn < turns; ++turn)
        for (std::size_t i = 0; i < calls.size(); ++i) {
            wait_for(device);
            group.hear_all("ready");
            const auto start = std::chrono::steady_clock::now();
            const int times = repeats * (turn + 1) / turns - repeats * turn / turns;
            for (int n = 0; n < times; ++n) calls[i]();
            wait_for(device);
            samples[i].push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() /
                                 times);
        }
    std::vector<double> medians;
    for (std::vector<double>& of_call : samples) {
        std::ranges::nth_element(of_call, of_call.begin() + turns / 2);
        medians.push_back(of_call[turns / 2]);
    }
    return medians;
}

/// One rank's tensors.
struct Parts {
    torch::Tensor q, k, v, dout;
};

/// Lets autograd follow them.
void follow(Parts& own) {
    for (torch::Tensor* leaf : {&own.q, &own.k, &own.v}) leaf->requires_grad_();
}

/// Rows of this rank's result, held against the oracle over all keys.
class Judge {
  public:
    Judge(const Plan& plan, const RingDemo& demo, const Group& group, torch::Device device)
        : plan_(plan), demo_(demo), group_(group) {
        const RingSizes& s = plan.sizes;
        const auto inputs = reference::make_inputs({.batch = s.batch,
                                                    .query_heads = s.query_heads,
                                                    .kv_heads = s.kv_heads,
                                                    .query_length = s.query_length,
                                                    .key_length = s.key_length,
                                                    .head_dim = s.head_dim,
                                                    .dtype = plan.dtype,
                                                    .seed = 9},
                                                   device);
        q_ = inputs.q;
        k_ = inputs.k;
        v_ = inputs.v;
        at::manual_seed(9);
        dout_ = at::randn(q_.sizes()).to(q_.options());
    }

    Parts own() const {
        const auto cut = [&](const torch::Tensor& whole) {
            return demo_.cut(whole, group_.rank(), group_.size(), plan_.call.zigzag);
        };
        return {cut(q_), cut(k_), cut(v_), cut(dout_)};
    }

    void forward(const AttentionResult& result, MethodRun& run) const {
        std::int64_t held_before = 0;
        for (const auto& [first, length] :
             demo_.held(plan_.sizes.query_length, group_.rank(), group_.size(), plan_.call.zigzag)) {
            const std::int64_t rows = std::min(length, kCheckedRows);
            for (const std::int64_t from : {std::int64_t(0), length - rows})
                if (rows > 0) window(result, held_before + from, first + from, rows, run);
            held_before += length;
        }
    }

    /// On rank 0, which gathers all.
    void backward(const AttentionResult& result, const AttentionGradients& d, MethodRun& run) const {
        const AttentionResult whole{gathered(result.out), gathered(result.lse.unsqueeze(-1)).squeeze(-1)};
        const AttentionGradients all{.dq = gathered(d.dq), .dk = gathered(d.dk), .dv = gathered(d.dv)};
        if (group_.rank() == 0)
            take(reference::compare_gradients(all, q_, k_, v_, whole, dout_, plan_.call.attention), run);
    }

  private:
    /// `rows` rows from `first` on: as the last queries of the keys that they see.
    void window(const AttentionResult& result, std::int64_t held, std::int64_t first, std::int64_t rows,
                MethodRun& run) const {
        const Mask mask = plan_.call.attention.mask;
        const std::int64_t shift = mask == Mask::causal_bottom_right ? k_.size(2) - q_.size(2) : 0;
        const std::int64_t keys =
            mask == Mask::none ? k_.size(2) : std::clamp<std::int64_t>(first + rows + shift, 0, k_.size(2));
        const bool whole_rule = mask != Mask::none && keys == first + rows + shift;
        if (keys == 0 || (mask != Mask::none && !whole_rule)) return;  // judged where a window fits the mask
        take(reference::compare_attention(
                 {result.out.narrow(2, held, rows), result.lse.narrow(2, held, rows)}, q_.narrow(2, first, rows),
                 k_.narrow(2, 0, keys), v_.narrow(2, 0, keys),
                 {.scale = plan_.call.attention.scale, .mask = mask == Mask::none ? mask : Mask::causal_bottom_right}),
             run);
    }

    static void take(const reference::Comparison& verdict, MethodRun& run) {
        run.right = run.right && verdict.passed;
        if (!verdict.passed) run.report = verdict.report;
        if (run.allowed == 0 || verdict.max_abs_error / verdict.bound > run.error / run.allowed) {
            run.error = verdict.max_abs_error;
            run.allowed = verdict.bound;
        }
    }

    torch::Tensor gathered(const torch::Tensor& part) const {
        const std::int64_t whole =
            part.size(1) == plan_.sizes.query_heads ? plan_.sizes.query_length : plan_.sizes.key_length;
        std::vector<std::vector<std::int64_t>> sizes(group_.size(), part.sizes().vec());
        for (int rank = 0; rank < group_.size(); ++rank) {
            sizes[rank][2] = 0;
            for (const auto& [first, length] : demo_.held(whole, rank, group_.size(), plan_.call.zigzag))
                sizes[rank][2] += length;
        }
        return demo_.rejoin(distributed::all_to_all(group_, std::vector(group_.size(), part), sizes),
                            plan_.call.zigzag);
    }

    const Plan& plan_;
    const RingDemo& demo_;
    const Group& group_;
    torch::Tensor q_, k_, v_, dout_;
};

Json to_json(const std::vector<Event>& events) {
    Json all = Json::array();
    for (const Event& event : events) all.push_back({event.what, event.begin, event.end});
    return all;
}

std::vector<Event> events_from_json(const Json& json) {
    std::vector<Event> events;
    for (const Json& event : json) events.push_back({.what = event[0], .begin = event[1], .end = event[2]});
    return events;
}

Json to_json(const RankRun& run) {
    Json methods = Json::array();
    for (const MethodRun& m : run.methods)
        methods.push_back({{"method", m.method},
                           {"objection", m.objection},
                           {"bytes_sent", m.bytes_sent},
                           {"seconds", m.seconds},
                           {"peak_bytes", m.peak_bytes},
                           {"error", m.error},
                           {"allowed", m.allowed},
                           {"right", m.right},
                           {"report", m.report},
                           {"events", to_json(m.events)}});
    return {{"device", run.device}, {"kernel", run.kernel}, {"alone_seconds", run.alone_seconds}, {"methods", methods}};
}

RankRun from_json(const Json& json) {
    RankRun run{
        .device = json["device"], .kernel = json["kernel"], .alone_seconds = json["alone_seconds"], .methods = {}};
    for (const Json& m : json["methods"])
        run.methods.push_back({.method = m["method"],
                               .objection = m["objection"],
                               .bytes_sent = m["bytes_sent"],
                               .seconds = m["seconds"],
                               .peak_bytes = m["peak_bytes"],
                               .error = m["error"],
                               .allowed = m["allowed"],
                               .right = m["right"],
                               .report = m["report"],
                               .events = events_from_json(m["events"])});
    return run;
}

/// What a rank gets of a call, with its gradients where they are asked for.
struct Outcome {
    AttentionResult result;
    AttentionGradients gradients;
};

Outcome call(const RingMethod& method, const Plan& plan, const Parts& own, const Group& group) {
    Outcome outcome{.result = method.run(own.q, own.k, own.v, group, plan.call), .gradients = {}};
    if (!plan.backward) return outcome;
    const auto d = torch::autograd::grad({outcome.result.out}, {own.q, own.k, own.v}, {own.dout});
    outcome.gradients = {.dq = d[0], .dk = d[1], .dv = d[2]};
    outcome.result = {.out = outcome.result.out.detach(), .lse = outcome.result.lse.detach()};
    return outcome;
}

/// All but the time: whether the answer is right, what was sent, and how much memory it took.
MethodRun judged(const RingMethod& method, const Plan& plan, const Judge& judge, const Parts& own, const Group& group,
                 torch::Device device) {
    MethodRun run{.method = method.name, .objection = {}, .right = true};
    peak_since(device);
    const std::int64_t before = group.bytes_sent();
    const Outcome outcome = call(method, plan, own, group);
    run.bytes_sent = group.bytes_sent() - before;
    run.peak_bytes = peak_since(device);
    if (!plan.trace.empty()) {
        const Recorder recorder;
        group.hear_all("ready");
        call(method, plan, own, group);
        run.events = recorder.events();
    }
    judge.forward(outcome.result, run);
    if (plan.backward && std::max(plan.sizes.query_length, plan.sizes.key_length) <= kLongestGradients)
        judge.backward(outcome.result, outcome.gradients, run);
    return run;
}

}  // namespace

std::vector<RankRun> run_as(const distributed::Place& place, const std::shared_ptr<distributed::Board>& board,
                            const Plan& plan, const RingDemo& demo) {
    at::set_num_threads(1);
    if (!plan.trace.empty() && !place.local)
        throw std::invalid_argument("ring: --trace: ranks on several machines have no clock in common");
    const torch::Device device = device_of(place, plan);
    const Group group(board, place.rank, place.ranks,
                      {.engine = plan.on_gpus ? distributed::EngineKind::nccl : distributed::EngineKind::gloo,
                       .name = place.name,
                       .patience = distributed::Patience(std::int64_t(1e3 * plan.patience)),
                       .local = place.local,
                       .link = plan.trace.empty() || plan.link ? plan.link : std::numeric_limits<double>::infinity()});
    try {
        const Judge judge(plan, demo, group, device);
        Parts own = judge.own();
        if (plan.backward) follow(own);
        RankRun run{.device = device_limits(device).name, .kernel = {}, .alone_seconds = 0, .methods = {}};
        std::vector<std::function<void()>> timed;
        for (const RingMethod& method : demo.methods) {
            if (plan.only && *plan.only != method.name) continue;
            const std::string objection = method.objection(plan.sizes, group.size());
            if (!objection.empty()) {
                run.methods.push_back({.method = method.name, .objection = objection});
                continue;
            }
            run.methods.push_back(judged(method, plan, judge, own, group, device));
            timed.push_back([&] { call(method, plan, own, group); });
        }
        const bool has_pairs = own.q.size(2) > 0 && own.k.size(2) > 0;
        if (has_pairs) run.kernel = attention_choice(own.q, own.k, own.v, plan.call.attention).forward;
        timed.push_back([&] {
            if (!has_pairs) return;
            const AttentionResult result = attention_with_lse(own.q, own.k, own.v, plan.call.attention);
            if (plan.backward) torch::autograd::grad({result.out}, {own.q, own.k, own.v}, {own.dout});
        });
        timed.back()();  // the methods have run once, too, before they are timed
        const std::vector<double> seconds = seconds_of(group, device, plan.repeats, timed);
        run.alone_seconds = has_pairs ? seconds.back() : 0;
        auto next = seconds.begin();
        for (MethodRun& method : run.methods)
            if (method.objection.empty()) method.seconds = *next++;
        std::vector<RankRun> all;
        for (const std::string& text : group.hear_all(to_json(run).dump())) all.push_back(from_json(Json::parse(text)));
        return all;
    } catch (const std::exception& error) {
        group.give_up(error.what());
        throw;
    }
}

}  // namespace ladder::cli::ring
