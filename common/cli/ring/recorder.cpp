#include "common/cli/ring/recorder.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <string_view>

namespace ladder::cli::ring {
namespace {

constexpr std::string_view kNames[] = {"work", "merge", "wait", "send", "receive"};

std::mutex mutex;
std::vector<Event> collected;  // libtorch takes functions that know nothing of a Recorder

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Begun : at::ObserverContext {
    double at = now();
};

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction&) { return std::make_unique<Begun>(); }

void end(const at::RecordFunction& scope, at::ObserverContext* context) {
    const std::string name(scope.name());
    if (std::ranges::find(kNames, name) == std::end(kNames)) return;  // libtorch has scopes of its own
    const std::scoped_lock lock(mutex);
    collected.push_back({.what = name, .begin = static_cast<Begun*>(context)->at, .end = now()});
}

}  // namespace

Recorder::Recorder()
    : handle_(at::addGlobalCallback(at::RecordFunctionCallback(begin, end).scopes({at::RecordScope::USER_SCOPE}))) {
    const std::scoped_lock lock(mutex);
    collected.clear();
}

Recorder::~Recorder() { at::removeCallback(handle_); }

std::vector<Event> Recorder::events() const {
    const std::scoped_lock lock(mutex);
    std::vector<Event> events = collected;
    std::ranges::stable_sort(events, {}, &Event::begin);
    return events;
}

}  // namespace ladder::cli::ring
