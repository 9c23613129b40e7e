#include "common/simt/launch/crew.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "common/simt/machine/worker_watch.h"
#include "common/simt/memory/spare.h"
#include "common/simt/report/trace.h"

namespace simt {
inline namespace cpu {
namespace {

constexpr std::size_t kMostSpareBlocks = 256;  // the machines with most cores have no more workers

/// Blocks own stacks and shadow memory that are costly to map, so they outlive the launch and are lent to its workers.
Spare<Block>& pool() {
    static Spare<Block> instance(kMostSpareBlocks);
    return instance;
}

/// So long must nothing new be found before it counts as certain that nothing will: a loop may count its turns.
constexpr int kPatientTurns = 4096, kPatientRounds = 64;

/// After so many rounds without news a worker sleeps, as long as others have news: the first one may have missed a
/// change that nobody told of yet, and the next ones cost less than to fall asleep and be called.
constexpr int kRoundsBeforeRest = 4;

/// Without news, so many rounds after the last block another one begins, whatever else those that run may find.
constexpr int kRoundsBetween = 8;

/// The blocks that one worker has begun.
class Crew {
  public:
    Crew(const Block::Launch& launch, BlockQueue& queue, int worker)
        : launch_(launch), queue_(queue), worker_(worker), watch_(launch.budget) {}

    ~Crew() {
        launch_.residents.is_done(worker_);
        if (!is_idle_) launch_.residents.note_idle();
        for (auto* blocks : {&begun_, &ended_, &spare_})
            for (std::unique_ptr<Block>& block : *blocks) {
                block->end_launch();
                pool().keep(std::move(block));
            }
    }
    Crew(const Crew&) = delete;
    Crew& operator=(const Crew&) = delete;

    void work(WorkerResult& result) {
        try {
            while (begin_one() || !begun_.empty() || waits_for_room()) {
                while (!begun_.empty() && run_round()) {
                }
                if (queue_.is_stopped() && !had_news_) break;
            }
        } catch (...) {
            queue_.stop();
            result.error = std::current_exception();
            result.failed_block = at_work_on_;
        }
        while (!begun_.empty()) {
            Block& block = *begun_.back();
            block.abandon();
            hand_in(block);
            spare_.push_back(std::move(begun_.back()));
            begun_.pop_back();
        }
        result.counted += counted_;
    }

  private:
    /// Another block begins, or the blocks of a cluster, if there is one, and room for it.
    bool begin_one() {
        const std::size_t blocks = queue_.blocks_of_cluster();
        if (queue_.is_empty() || !launch_.residents.take_room(blocks)) return false;
        uint3 first;
        if (!queue_.next(first)) {
            launch_.residents.give_room_back(blocks);
            return false;
        }
        is_at_work();
        rounds_without_news_ = rounds_since_begin_ = 0;
        Cluster* cluster = nullptr;
        if (launch_.cluster) {
            std::vector<std::uint64_t> numbers;
            for (unsigned rank = 0; rank < blocks; ++rank)
                numbers.push_back(queue_.number_of(queue_.block_of(first, rank)));
            cluster = clusters_.emplace_back(std::make_unique<Cluster>(std::move(numbers))).get();
        }
        for (unsigned rank = 0; rank < blocks; ++rank) {
            if (spare_.empty()) spare_.push_back(pool().take());
            spare_.back()->begin(launch_, queue_.block_of(first, rank), cluster, int(rank));
            // Nobody takes turns in the order of their numbers on a GPU; a seed draws another one.
            const auto place = queue_.seed()
                                   ? std::ptrdiff_t((queue_.seed() * 7 + first.x + rank) % (begun_.size() + 1))
                                   : std::ptrdiff_t(begun_.size());
            begun_.insert(begun_.begin() + place, std::move(spare_.back()));
            spare_.pop_back();
        }
        return true;
    }

    /// There are blocks left, which begin when others end that run elsewhere.
    bool waits_for_room() {
        if (queue_.is_empty()) return false;
        look_for_end();
        pause();
        return true;
    }

    /// Each of the blocks has a turn. False: it takes another one for them to go on, or at least might.
    bool run_round() {
        had_news_ = false;
        for (std::size_t i = 0; i < begun_.size();) {
            Block& block = *begun_[i];
            at_work_on_ = block.number();
            if (block.go_on()) {
                had_news_ = true;
                is_at_work();
                end_block(i);
                continue;
            }
            if (block.take_news()) {
                had_news_ = true;
                is_at_work();
            }
            ++i;
        }
        if (begun_.empty()) return false;
        ++rounds_since_begin_;
        if (had_news_) {
            rounds_without_news_ = 0;
            return rounds_since_begin_ % kRoundsBetween != 0;
        }
        look_for_end();
        pause();
        return false;
    }

    /// Nothing to do: who is to change something runs elsewhere. (No yield: on a busy processor each takes longer than
    /// all turns of a launch.)
    void pause() {
        if (rounds_without_news_ < kRoundsBeforeRest || queue_.is_stopped()) return;
        if (!std::exchange(is_idle_, true)) launch_.residents.note_idle();
        launch_.residents.rest(worker_, changes_);
    }

    void is_at_work() {
        launch_.residents.is_at_work(worker_);
        if (std::exchange(is_idle_, false)) launch_.residents.note_busy();
    }

    void end_block(std::size_t i) {
        std::unique_ptr<Block> block = std::move(begun_[i]);
        begun_.erase(begun_.begin() + std::ptrdiff_t(i));
        Block& ended = *block;
        (launch_.cluster ? ended_ : spare_).push_back(std::move(block));
        launch_.residents.leave(ended.number());
        try {
            ended.end();
        } catch (...) {
            hand_in(ended);
            throw;
        }
        hand_in(ended);
        if (Cluster* const cluster = ended.cluster()) end_cluster(*cluster);
        if (launch_.global.has_conflict()) queue_.stop();  // what comes first is known, or about to be handed in
    }

    void hand_in(Block& block) {
        if (launch_.trace) {
            TracedBlock traced = block.take_trace();
            counted_ += traced.counters;
            launch_.trace->end_block(std::move(traced));
        } else {
            counted_ += block.traffic.take();
        }
    }

    /// Once all blocks of a cluster have ended, nobody looks at their memory any more.
    void end_cluster(const Cluster& cluster) {
        const auto is_of_it = [&](const std::unique_ptr<Block>& block) { return block->cluster() == &cluster; };
        if (std::ranges::count_if(ended_, is_of_it) < cluster.size()) return;
        const auto rest = std::ranges::stable_partition(ended_, std::not_fn(is_of_it));
        std::ranges::move(rest, std::back_inserter(spare_));
        ended_.erase(rest.begin(), rest.end());
        std::erase_if(clusters_, [&](const auto& other) { return other.get() == &cluster; });
    }

    /// Nothing new in a round, and nobody to begin. Ends the launch if that is so everywhere, and for long.
    void look_for_end() {
        const std::uint64_t changes = launch_.residents.changes();
        if (changes != changes_) {
            changes_ = changes;
            rounds_without_news_ = 0;
            is_at_work();
            return;
        }
        const int enough = std::max(kPatientRounds, kPatientTurns / int(std::max<std::size_t>(1, begun_.size())));
        if (++rounds_without_news_ < enough) return;
        if (rounds_without_news_ == enough)
            for (const std::unique_ptr<Block>& block : begun_)
                launch_.residents.note_wait(block->number(), block->awaits());
        launch_.residents.is_patient(worker_, changes);
        if (!launch_.residents.none_can_go_on(changes)) return;
        MachineError::Report report = launch_.residents.stuck(queue_.blocks(), at_work_on_);
        report.kernel = launch_.kernel;
        report.threads_per_block = {launch_.block.x, launch_.block.y, launch_.block.z};
        throw MachineError(std::move(report));
    }

    const Block::Launch& launch_;
    BlockQueue& queue_;
    const int worker_;
    const WorkerWatch watch_;
    std::vector<std::unique_ptr<Cluster>> clusters_;
    std::vector<std::unique_ptr<Block>> begun_, ended_, spare_;  // ended_: of clusters that have not ended
    Counters counted_;
    std::uint64_t at_work_on_ = UINT64_MAX, changes_ = 0;
    int rounds_without_news_ = 0, rounds_since_begin_ = 0;
    bool had_news_ = false, is_idle_ = false;
};

}  // namespace

WorkerResult run_blocks(const Block::Launch& launch, BlockQueue& queue, int worker) {
    WorkerResult result;
    try {
        Crew(launch, queue, worker).work(result);
    } catch (...) {
        queue.stop();
        result.error = std::current_exception();
    }
    return result;
}

}  // namespace cpu
}  // namespace simt
