#pragma once

#include "common/classroom/judge/examine_attention.h"

namespace ladder::classroom {

/// Whether a learner's result is what a known mistake gives: it must agree with it as a right result would with the
/// right one. Where the mistake leaves an infinity or NaN, the result must have the same.
bool resembles(const AttentionQuestion& question, const Attended& result, const Attended& wrong);

}  // namespace ladder::classroom
