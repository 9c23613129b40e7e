#pragma once

#include "common/attention/arguments.h"
#include "phase1_naive/blocked_arguments.h"
#include "phase1_naive/standard_arguments.h"

// What standard.cuh, q_blocked.cuh and qv_blocked.cuh define, compiled once per machine. The launches of schemes A and
// B do not ask whether the shared memory fits: naive.cpp does, and the overflow demo leaves it to the device.

namespace ladder::cpu {
void launch_standard_attention(const StandardArguments&);
void launch_q_blocked(const BlockedArguments&);
void launch_qv_blocked(const BlockedArguments&);
GlobalBytes standard_attention_bytes(const AttentionArguments&);
GlobalBytes q_blocked_bytes(const BlockedArguments&);
GlobalBytes qv_blocked_bytes(const BlockedArguments&);
}  // namespace ladder::cpu

namespace ladder::cuda {
[[gnu::weak]] void launch_standard_attention(const StandardArguments&);
[[gnu::weak]] void launch_q_blocked(const BlockedArguments&);
[[gnu::weak]] void launch_qv_blocked(const BlockedArguments&);
}  // namespace ladder::cuda
