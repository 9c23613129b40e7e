#pragma once

#include "common/classroom/judge/attend.h"

namespace ladder::classroom {

/// Whether a learner's result is what a known mistake gives: it must agree with it as a right result would with the
/// right one. Where the mistake leaves an infinity or NaN, the result must have the same.
///
/// @param magnitude  of the values that were weighed
bool resembles(const Attended& result, const Attended& wrong, double magnitude);

}  // namespace ladder::classroom
