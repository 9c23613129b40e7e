#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "common/distributed/board.h"

namespace ladder::distributed {

/// A tensor on its way to a rank, or from one. Contiguous.
struct Message {
    at::Tensor tensor;  ///< what is sent, or where it arrives
    int peer = 0;       ///< the other rank
};

/// One message that is under way.
class Delivery {
  public:
    virtual ~Delivery() = default;

    /// Returns when the message has been sent or has arrived; on a GPU, when the current stream will wait for that.
    /// Throws what the engine throws where the peer has ended, or takes longer than that.
    virtual void wait(Patience patience) = 0;
};

/// What carries tensors between ranks: c10d's process groups.
class Engine {
  public:
    virtual ~Engine() = default;

    /// Begins to send and to receive, all at once, and returns. One delivery for each message, those that are sent
    /// first; a null one where another stands for it.
    virtual std::vector<std::unique_ptr<Delivery>> begin(const std::vector<Message>& sent,
                                                         const std::vector<Message>& received) = 0;

    /// Gives up all that is under way, so that nobody waits for it.
    virtual void abandon() = 0;
};

/// Which engines there are.
enum class EngineKind {
    gloo,  ///< CPU tensors, over TCP
    nccl,  ///< CUDA tensors, one GPU a rank
};

/// What this program lacks for that engine, and what helps, in a sentence; empty where it lacks nothing.
std::string missing_for(EngineKind kind);

/// Connects a rank with the others, who must do the same. `board` must be one of board.h's, `local`: all ranks are on
/// this machine. Throws std::runtime_error where missing_for() says something, and what the engine throws where others
/// do not come.
std::unique_ptr<Engine> connect(EngineKind kind, const Board& board, const std::string& name, int rank, int ranks,
                                bool local, Patience patience);

}  // namespace ladder::distributed
