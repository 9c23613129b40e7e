#pragma once

#include <signal.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/simt/counters/traffic.h"
#include "common/simt/device/device.h"
#include "common/simt/language/cuda_names.h"
#include "common/simt/language/warpgroup_threads.h"
#include "common/simt/machine/awaited.h"
#include "common/simt/machine/budget.h"
#include "common/simt/machine/call_paths.h"
#include "common/simt/machine/cluster.h"
#include "common/simt/machine/companion.h"
#include "common/simt/machine/fiber_stacks.h"
#include "common/simt/machine/half_full_barriers.h"
#include "common/simt/machine/lookout.h"
#include "common/simt/machine/residents.h"
#include "common/simt/machine/spin_watch.h"
#include "common/simt/machine/switch_stack.h"
#include "common/simt/memory/global_shadow.h"
#include "common/simt/memory/sanitizers.h"
#include "common/simt/memory/shared_memory.h"
#include "common/simt/memory/thread_clocks.h"
#include "common/simt/report/machine_error.h"

namespace simt {

struct TracedBlock;
class TraceLog;

inline namespace cpu {

class BlockRecorder;
class EventRecorder;

/// The warp-wide operations that the machine knows.
enum class Collective : std::uint32_t {
    syncwarp,
    shfl,
    shfl_up,
    shfl_down,
    shfl_xor,
    ballot,
    any,
    all,
    instruction,  ///< of all 32 lanes, see Block::WarpInstruction
};

/// The barriers of a whole block: a plain one, and those at which each thread says yes or no.
enum class Barrier : std::uint8_t { plain, count, any, all };

/// How CUDA writes it, such as "__syncthreads()".
std::string call_of(Barrier);

/// Whether a launch's accesses to memory are checked and counted. Without, views are bare pointers, and barriers, warp
/// collectives and the device's limits are all that the machine still watches.
enum class Checks : bool { off, on };

/// Runs one thread block: its threads are fibers on the calling OS thread, and each runs until it meets a barrier or a
/// warp collective that still waits for others, or for what another thread is to do. The order is fixed (the lowest
/// runnable thread of the same warp, then the next warp), so a kernel does the same thing on every run; a seed
/// (ScopedOrder) draws another one of the warps.
///
/// A block whose threads can only wait for what another block is to do stands still, and its worker goes on with that
/// one: begin(), then go_on() until the block has ended, then end().
class Block final : private SharedMemory::Owner, private AccessListener {
  public:
    struct Launch {
        const char* kernel;
        const Device& device;
        dim3 grid, block;
        std::optional<dim3> cluster;  ///< blocks of each cluster; nothing: the launch has none
        std::size_t shared_bytes;
        Checks checks;
        std::optional<LaunchLog::Detail> count;  ///< what to count
        GlobalLaunchShadow& global;
        std::atomic<bool>& needs_clocks;  ///< set by a block whose threads met as intervals cannot tell
        TraceLog* trace;                  ///< who listens, if somebody does
        Budget budget;                    ///< of each block
        Residents& residents;             ///< the blocks that have begun
        HalfFullBarriers& half_full;      ///< what they have left behind
        const void* kernel_code;          ///< the kernel's function, which `body` calls
        void (*body)(const void*);
        const void* arguments;
    };

    Block();
    ~Block();

    /// The block that the calling OS thread runs. Kernels reach the machine through it.
    static Block& current() { return *current_; }

    /// The same, or null outside of blocks; for signal handlers.
    static Block* running() { return current_; }

    /// Makes ready to run block `index` of the launch, in a cluster if it has a rank there.
    void begin(const Launch& launch, uint3 index, Cluster* cluster = nullptr, int rank = 0);

    /// Runs it, on the calling OS thread. Whether it has ended, well or not; else it waits for others.
    bool go_on();

    /// After that. Throws MachineError if the kernel did something wrong; the Block can be used again afterwards.
    void end();

    /// Ends it where it stands, because others have failed.
    void abandon();

    /// Whether a thread has found something new in its last turn: only then could it do anything but wait.
    bool take_news() { return had_news_ = spins_.take_news(); }

    /// What it waits for, after a turn in which it could do nothing else.
    Residents::Wait awaits() const;
    bool has_ended() const { return has_ended_; }
    std::uint64_t number() const { return number_; }

    /// The OS thread that ran it is done with a launch.
    void end_launch() { stacks_.end_launch(); }

    /// The cluster that it belongs to; null: none.
    Cluster* cluster() const { return cluster_; }
    int rank() const { return rank_; }

    /// What the running thread passes on to threads of other blocks of the cluster, and learns from them.
    void release_to_cluster(ClusterMessage& into);
    void acquire_from_cluster(const ClusterMessage& from);

    /// In orders that are drawn, other blocks of the cluster may go on now.
    void let_cluster_go_first();

    std::string home() const override;
    Witness witness(int who, SourceSite site) const override;

    /// What a thread looks at. Of no tensor, where nobody has named what lies there.
    struct LookedAt {
        const void* address = nullptr;
        int tensor = kNoTensor;
        SourceSite site{};
        static constexpr int kShared = -1, kNoTensor = -2;
    };
    /// The running thread has looked there, atomically, and found these bits. Where it looks in vain again and again,
    /// others have a turn first: of this block, and then of other blocks.
    [[gnu::noinline]] void note_find(const LookedAt& place, std::uint64_t bits);

    /// At its end: it has gone through these named barriers, a bit each; and it leaves one half full that it has not.
    void note_opened(unsigned barriers) { launch_->half_full.note_opened(barriers); }
    void note_half_full(int barrier, MachineError::Report report);

    /// It has changed what others may look at.
    [[gnu::noinline]] void note_change() {
        if (launch_->residents.anybody_waits()) launch_->residents.note_change();
    }

    // Both are inlined into the kernel down to the switch between stacks, unless a sanitizer forbids it. Measured with
    // the switch in block.cpp instead: a meeting took 8 ns rather than 6, and an unchecked attention kernel half as
    // long again.
    [[gnu::always_inline]] void barrier(SourceSite site) {
        if constexpr (kHidesMachine)
            meet_at_barrier_out_of_sight(site);
        else
            meet_at_barrier(site);
    }
    /// A barrier at which each thread says yes or no; how many said yes.
    [[gnu::always_inline]] int barrier_vote(Barrier kind, bool yes, SourceSite site) {
        if constexpr (kHidesMachine)
            vote_at_barrier_out_of_sight(kind, yes, site);
        else
            vote_at_barrier(kind, yes, site);
        return votes_;
    }
    [[gnu::always_inline]] std::uint64_t collective(Collective kind, std::uint32_t mask, std::uint64_t value,
                                                    int source_lane, SourceSite site) {
        return meet({kind, mask}, value, source_lane, site, nullptr);
    }

    /// What a warp does as a whole.
    struct WarpInstruction {
        const char* name;  ///< for messages
        /// Called once, when all 32 lanes have arrived; `argument` is what each of them passed.
        void (*run)(Block&, int warp, const std::array<const void*, 32>& argument);
    };

    /// An instruction such as mma.sync, which demands all 32 lanes: a warp that lacks some, since they have returned or
    /// never were, is diagnosed.
    [[gnu::always_inline]] void warp_instruction(const WarpInstruction& instruction, const void* argument,
                                                 SourceSite site) {
        meet({Collective::instruction, 0xffffffffu}, reinterpret_cast<std::uintptr_t>(argument), 0, site, &instruction);
    }

    /// What a warpgroup does as a whole. Each is one object that lives as long as the program.
    struct WarpgroupInstruction {
        /// Called once, when all 128 threads have arrived; `argument` is what each of them passed.
        using Run = void (*)(Block&, int warpgroup, const std::array<const void*, kWarpgroup>& argument);
        constexpr WarpgroupInstruction(const char* name, Run run) : on_warp{name, gather_warp}, run(run) {}

        WarpInstruction on_warp;  ///< as which the lanes of each warp meet, with its name for messages
        Run run;
    };

    /// An instruction such as wgmma, which demands all four warps of a warpgroup; each warp is first a whole one.
    void warpgroup_instruction(const WarpgroupInstruction& instruction, const void* argument, SourceSite site);

    /// The running thread stands still until somebody calls wake() for `object`, and should then look whether it can
    /// go on: others may have come before it.
    void sleep(const Awaited& object, SourceSite site);

    /// Lets go on whoever sleeps on `object`.
    void wake(const Awaited& object);
    bool is_awaited(const Awaited& object) const;

    /// Lets others run, if any can. Whether anything has happened: somebody ran, or something under way came to pass.
    bool let_others_go_first(SourceSite site);

    /// From now on, clocks know the order of what intervals cannot tell. Nothing to do where they are kept already.
    void need_clocks() {
        if (!has_clocks_) order_by_clocks();
    }
    ThreadClocks& clocks() { return clocks_; }
    const ThreadClocks& clocks() const { return clocks_; }

    /// What the warp of the running thread does from now on has another number: it is told apart from what was before.
    void begin_interval();

    /// What the running thread passes on to whoever synchronises with it (release), and learns from it (acquire).
    void release(ThreadClocks::Clock& into);
    void acquire(const ThreadClocks::Clock& from) { clocks_.acquire(current_thread_, from); }

    /// Shows agents what the running thread knows of in that memory: fence.proxy.async.
    void show_to_agents(ShownSpace space);

    /// Whether what `thread` did in interval `interval` of its warp lies before what the running one does.
    bool knows(int thread, std::uint32_t interval) const;

    /// Somebody who touches shared memory without being a thread, and what messages call him: see ThreadClocks.
    int add_agent(std::string name);

    /// The number of what an agent does now.
    std::uint32_t open_agent_interval() { return shared.open_warp_interval(); }

    /// "thread 5", or what the agent is called.
    std::string party(int who) const override;

    const Device& device() const { return launch_->device; }
    int threads() const { return threads_; }

    /// Diagnoses an instruction that the imitated device does not have.
    void require_feature(Feature feature, SourceSite site) {
        if (!launch_->device.has_feature(feature)) [[unlikely]]
            report_unsupported(feature, site);
    }

    Checks checks() const { return launch_->checks; }
    int thread() const { return current_thread_; }
    int lane() const { return int(unsigned(current_thread_) % 32); }
    std::uint32_t warp_interval() const { return warp_interval_; }

    [[gnu::always_inline]] void read_shared(SharedMemory::Elements elements, SourceSite site) {
        if (elements.count > 1) {
            if (traffic.is_heard() || !shared.open_to_reader(elements)) [[unlikely]]
                read_shared_vector(elements, site);
            return;
        }
        traffic.shared(false, elements.offset(), elements.bytes(), current_thread_, site);
        shared.read(elements, current_thread_, warp_interval_, site);
    }
    [[gnu::always_inline]] void write_shared(SharedMemory::Elements elements, SourceSite site) {
        traffic.shared(true, elements.offset(), elements.bytes(), current_thread_, site);
        shared.write(elements, current_thread_, warp_interval_, site);
    }
    void access_global(bool write, int tensor, const void* p, std::size_t bytes, SourceSite site) {
        traffic.global(write, tensor, p, bytes, current_thread_, site);
        global.access(write, tensor, p, bytes, current_thread_, warp_interval_, site);
    }

    /// A kernel shows a value, see simt::watch().
    void watch(const char* name, std::int64_t row, std::int64_t column, float value);

    /// Who hears of what parties of the block do, such as waits at an mbarrier; null: nobody.
    EventRecorder* events() { return recorder_ ? recorded_events() : nullptr; }

    /// In a signal handler: so much processor time has passed, WorkerWatch::tick_seconds(). A block whose budget is
    /// used up is watched from now on; one that then does nothing that can be watched ends here.
    void tick(void* context);

    /// In a signal handler: whether the signal is a mistake of the kernel. If so, the block ends in a diagnosis as soon
    /// as the handler returns.
    bool take_signal(int signal, const siginfo_t& info, void* context);

    /// What this block did in its last run, and counted; the trace of that run gets both.
    TracedBlock take_trace();

    /// Ends the whole block with a diagnosis. Never returns to the kernel: its threads are abandoned where they stand,
    /// which is safe because kernels own nothing that needs destruction.
    [[noreturn, gnu::cold, gnu::noinline]] void fail(MachineError::Report report) override;

    [[noreturn, gnu::cold, gnu::noinline]] void report_bad_width(Collective kind, int width, SourceSite site);

    /// `bytes` of shared memory, from `offset` on, for a bare view.
    void* arena_bytes(std::size_t offset, std::size_t bytes);

    /// What the instructions of one kind, those of C, keep beside this block.
    template <class C>
    C& companion() {
        for (const auto& [kind, companion] : companions_)
            if (kind == &kKind<C>) return static_cast<C&>(*companion);
        return static_cast<C&>(add_companion(&kKind<C>, C::make));
    }

    SharedMemory shared{*this};
    GlobalShadow global{*this};
    Traffic traffic;

  private:
    /// What lanes call: one word, so that it takes one register.
    struct Call {
        Collective kind;
        std::uint32_t mask;
        friend bool operator==(Call a, Call b) {  // at once: neither has padding
            return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
        }
    };
    struct Pending {
        Call call;
        SourceSite site;
        const WarpInstruction* run;  // null: not an instruction
        std::uint32_t arrived;
        int first_lane;
        const CallPath* path;
        // Who comes from there has come by `path`, and there is none but this. 0: one must look closer.
        std::uintptr_t from;

        bool same(Call call_, SourceSite site_, const WarpInstruction* run_, std::uintptr_t from_) const {
            return call == call_ && site == site_ && run == run_ && from == from_;
        }
    };
    struct Warp {
        std::uint32_t live, runnable;
        std::uint32_t interval, since;  // since: the interval that began when all lanes last met
        SanitizedBarrier order;         // of __syncwarp()
        int pending_count;
        Pending pending[32];
        std::uint64_t value[32];
        int source[32];
    };

    /// A thread of the block.
    struct Fiber {
        StackPointer stack;  // while it does not run
        uint3 index;
        const Awaited* asleep_on = nullptr;  // null: it does not sleep
        SourceSite asleep_at;
        std::uint64_t result;  // of its last warp collective
        [[no_unique_address]] SanitizedFiber sanitized;
    };
    /// What a thread does that has arrived: it waits and lets `to` go on, or, if that is null, goes on itself.
    struct Arrival {
        Fiber *from, *to;
    };

    [[gnu::always_inline]] std::uint64_t meet(Call call, std::uint64_t value, int source_lane, SourceSite site,
                                              const WarpInstruction* run) {
        if constexpr (kHidesMachine)
            return meet_warp_out_of_sight(call, value, source_lane, site, run);
        else
            return meet_warp(call, value, source_lane, site, run);
    }
    std::uint64_t meet_warp_out_of_sight(Call call, std::uint64_t value, int source_lane, SourceSite site,
                                         const WarpInstruction* run);
    void meet_at_barrier_out_of_sight(SourceSite site);
    void vote_at_barrier_out_of_sight(Barrier kind, bool yes, SourceSite site);

    [[gnu::always_inline]] std::uint64_t meet_warp(Call call, std::uint64_t value, int source_lane, SourceSite site,
                                                   const WarpInstruction* run) {
        SanitizedMeeting& order = warp_->order.next();
        const Arrival arrival = arrive(call, value, source_lane, site, run);
        wait(arrival);
        if (call.kind == Collective::syncwarp) order.pass();
        return arrival.from->result;
    }
    [[gnu::always_inline]] void meet_at_barrier(SourceSite site) {
        SanitizedMeeting& order = order_.next();
        wait(arrive_at_barrier(site));
        order.pass();
    }
    [[gnu::always_inline]] void vote_at_barrier(Barrier kind, bool yes, SourceSite site) {
        SanitizedMeeting& order = order_.next();
        wait(arrive_at_vote(kind, yes, site));
        order.pass();
    }
    [[gnu::always_inline]] void wait(Arrival arrival) {
        if (arrival.to) [[likely]]
            switch_fibers(*arrival.from, *arrival.to);
    }
    [[gnu::always_inline]] void switch_fibers(Fiber& from, const Fiber& to, bool for_good = false) {
        from.sanitized.leave_for(to.sanitized, for_good);
        switch_stack(&from.stack, to.stack);
        from.sanitized.arrive(sanitized_home_);
    }

    EventRecorder* recorded_events();

    template <class C>
    static constexpr char kKind = 0;  // its address stands for C
    Companion& add_companion(const void* kind, std::unique_ptr<Companion> (*make)(Block&));
    [[noreturn, gnu::cold, gnu::noinline]] void fail_in_flight(const char* does, std::size_t offset, int thread,
                                                               SourceSite site) override;

    /// The four warps that an instruction of theirs waits for.
    struct Warpgroup final : Awaited {
        const WarpgroupInstruction* instruction = nullptr;  // null: nobody waits
        SourceSite site;
        int first_warp = 0, first_thread = 0;
        unsigned arrived = 0;    // warps, by bit
        std::uint64_t done = 0;  // instructions so far
        std::array<const void*, kWarpgroup> argument{};
        std::string awaited() const override;
    };
    struct WarpgroupCall {
        const WarpgroupInstruction* instruction;
        const void* argument;
        SourceSite site;
    };
    static void gather_warp(Block&, int warp, const std::array<const void*, 32>& argument);

    /// Where a signal found the kernel. Written in the handler, so it owns nothing.
    struct Interruption {
        int signal, code;  // signal 0: the budget is used up
        std::uintptr_t address, instruction, stack;
        std::array<void*, 32> calls;  // innermost first, the handler's own among them
        int depth;
    };

    void hear(const AccessListener::Access& access) override;
    void leave_from_handler(int signal, int code, std::uintptr_t address, void* context);
    [[gnu::cold, gnu::noinline]] void look_at_barrier();
    [[gnu::cold, gnu::noinline]] void look_at_sleeper(SourceSite site);
    [[gnu::cold, gnu::noinline]] void look_at_collective(const Warp& w, const Pending& done);
    [[gnu::cold, gnu::noinline]] void begin_to_look();
    bool is_looked_at() { return ++meetings_ >= meetings_unwatched_.load(std::memory_order_relaxed); }
    bool has_begun(int thread) const;
    bool is_running(const Witness& witness) const;
    std::string whereabouts() const;
    std::string since_barrier() const;
    std::string near(std::uintptr_t address) const;
    MachineError::Report endless_report() const;
    MachineError::Report report_of(const Interruption& interruption) const;
    [[noreturn, gnu::cold, gnu::noinline]] void report_endless();
    [[noreturn, gnu::cold, gnu::noinline]] void report_exception();

    void keep_exception();
    [[noreturn]] static void enter();
    Arrival arrive_at_barrier(SourceSite site);
    Arrival arrive_at_vote(Barrier kind, bool yes, SourceSite site);
    [[gnu::noinline]] Arrival arrive_by_path_at_barrier(Barrier kind, SourceSite site);
    Arrival take_part_in_barrier();
    Arrival arrive(Call call, std::uint64_t value, int source_lane, SourceSite site, const WarpInstruction* run);
    [[gnu::noinline]] Arrival arrive_first(Call call, std::uint64_t value, int source_lane, SourceSite site,
                                           const WarpInstruction* run);
    Arrival take_part(Warp&, int pending_index, std::uint64_t value, int source_lane);
    [[gnu::noinline]] Arrival complete_and_go_on(Warp&, int pending_index, Fiber&);
    Arrival let_others_run(Warp&, Fiber&, int thread);
    [[gnu::noinline]] Arrival let_next_run(Fiber&);
    Fiber* make_current(Fiber&, int thread);
    void read_shared_vector(SharedMemory::Elements elements, SourceSite site);
    void enter_warp(int w);
    void enter_interval(int warp, std::uint32_t interval, std::uint32_t since);
    void order_by_clocks();
    void order_lanes(Warp&, std::uint32_t lanes);
    void run_warp_instruction(Warp&, const Pending&);
    [[gnu::noinline]] int next_runnable();
    int find_runnable(int own);
    bool let_something_happen();
    bool let_sibling_run();
    [[gnu::noinline]] void stand_still();
    bool wait_for_cluster();
    MachineError::Report stuck_report() const;
    std::string sleepers() const;
    [[gnu::noinline]] int join(Warp&, Call call, SourceSite site, const WarpInstruction* run, const CallPath& path);
    bool meet_each_other(const Pending& other, Call call, SourceSite site, const WarpInstruction* run,
                         const CallPath& path);
    const CallPath& path_here(const void* frame);
    [[noreturn]] void finish_thread();
    [[noreturn]] void leave();
    void release_barrier();
    void complete(Warp&, int pending_index);
    SourceSite waits_at(int thread) const;
    [[noreturn, gnu::cold, gnu::noinline]] void report_stuck();
    [[noreturn, gnu::cold, gnu::noinline]] void report_foreign_mask(Call call, SourceSite site);
    [[noreturn, gnu::cold, gnu::noinline]] void report_foreign_lane(const Pending& met);
    [[noreturn, gnu::cold, gnu::noinline]] void report_diverged_collective(Call call, const WarpInstruction* run,
                                                                           const Pending& other, SourceSite site,
                                                                           const CallPath& path);
    [[noreturn, gnu::cold, gnu::noinline]] void report_incomplete_warp(int warp, const Pending& done);
    [[noreturn, gnu::cold, gnu::noinline]] void report_absent_lane(int warp, const Pending& done, int to, int from);
    [[noreturn, gnu::cold, gnu::noinline]] void report_unsupported(Feature feature, SourceSite site);
    [[noreturn, gnu::cold, gnu::noinline]] void report_diverged_barrier(int thread, Barrier kind, SourceSite site);
    [[noreturn, gnu::cold, gnu::noinline]] void report_left_barrier(int thread);
    [[noreturn, gnu::cold, gnu::noinline]] void report_parted_at_barrier(const Parting& parting);
    [[noreturn, gnu::cold, gnu::noinline]] void report_diverged_warpgroup(const Warpgroup& group, int warp,
                                                                          const WarpgroupCall& call);
    int warp_index() const { return int(unsigned(current_thread_) / 32); }

    [[gnu::tls_model("initial-exec")]] static inline constinit thread_local Block* current_ = nullptr;

    const Launch* launch_ = nullptr;
    uint3 index_{};
    std::unique_ptr<BlockRecorder> own_recorder_;
    BlockRecorder* recorder_ = nullptr;  // *own_recorder_ while somebody wants to see this block, else null
    FiberStacks stacks_;
    Lookout lookout_;
    std::uint64_t meetings_ = 0;                         // of this block
    std::atomic<std::uint64_t> meetings_unwatched_ = 0;  // atomics: handlers of signals write them
    std::atomic<bool> in_kernel_ = false;
    int ticks_ = 0, quiet_ticks_ = 0, events_at_tick_ = 0;
    Interruption interruption_{};
    bool interrupted_ = false;
    std::string thrown_;         // by a thread, in words
    std::vector<Fiber> fibers_;  // with the indices of a block of shape_
    dim3 shape_{0, 0, 0};
    std::vector<Warp> warps_;
    StackPointer home_ = nullptr;
    [[no_unique_address]] SanitizedFiber sanitized_home_;
    SanitizedMeeting start_, end_;  // of all threads
    SanitizedBarrier order_;        // of __syncthreads()
    int threads_ = 0, alive_ = 0, current_thread_ = 0;
    Fiber* fiber_ = nullptr;
    Warp* warp_ = nullptr;             // of the running thread
    std::uint32_t warp_interval_ = 0;  // of that warp
    ThreadClocks clocks_;
    bool has_clocks_ = false;  // this block
    std::vector<std::string> agents_;
    std::vector<Warpgroup> warpgroups_;  // made when the first of their instructions is met
    std::uint64_t drawn_ = 0;            // from which the next order is drawn; 0: the fixed one
    int at_barrier_ = 0, first_at_barrier_ = 0;
    int arriving_votes_ = 0, votes_ = 0;  // for yes: at the next barrier so far, and at the last one
    Barrier barrier_kind_ = Barrier::plain;
    SourceSite barrier_site_;
    const CallPath* barrier_path_ = nullptr;  // of the first at the barrier
    std::uintptr_t barrier_from_ = 0;         // as Pending::from
    std::uintptr_t arriving_from_ = 0;        // where the thread returns to that has just arrived
    CallPaths call_paths_;
    std::vector<std::pair<const void*, std::unique_ptr<Companion>>> companions_;  // with the addresses of their kKind
    std::optional<MachineError::Report> failure_;
    std::uint64_t number_ = 0;
    StackPointer next_ = nullptr;  // where the block goes on
    bool stands_still_ = false, is_abandoned_ = false, had_news_ = true, has_ended_ = false;
    Cluster* cluster_ = nullptr;
    int rank_ = 0;
    SpinWatch spins_;
    LookedAt looked_at_;       // when it last stood still, by looking_thread_
    int looking_thread_ = -1;  // -1: no thread could go on
    int turns_given_ = 0;
};

}  // namespace cpu
}  // namespace simt
