#pragma once

#include <array>
#include <initializer_list>
#include <string_view>

namespace simt {

/// What some devices have and others lack, and a kernel may need. Not every later device has what an earlier one has,
/// so that a compute capability says too little.
enum class Feature : unsigned {
    split_warps,   ///< lanes that have parted wait for each other in __syncwarp(), wherever each calls it
    ldmatrix,      ///< `ldmatrix`
    cp_async,      ///< `cp.async`
    mbarrier,      ///< barriers in shared memory: `mbarrier`
    mma,           ///< `mma.sync` of m16n8k16, f16 and bf16
    cache_hints,   ///< `.L2::cache_hint`, `createpolicy`
    fp8,           ///< e4m3 and e5m2: `cvt` and `mma.sync`
    early_launch,  ///< `griddepcontrol`, see sync/early_launch_cuda.h
    tma,           ///< `cp.async.bulk.tensor`
    wgmma,         ///< `wgmma.mma_async`
    cluster,       ///< thread block clusters, `barrier.cluster`, `mapa`
};

/// A set of features.
class Features {
  public:
    /// An empty set, or one of the features listed.
    constexpr Features() = default;
    constexpr Features(std::initializer_list<Feature> features) {
        for (const Feature f : features) add(f);
    }

    /// Puts `f` into the set; nothing changes where it is in already.
    constexpr void add(Feature f) { bits_ |= bit(f); }

    /// Whether it is one of them.
    constexpr bool has(Feature f) const { return (bits_ & bit(f)) != 0; }

    /// Whether all of `others` are.
    constexpr bool has_all(Features others) const { return (others.bits_ & ~bits_) == 0; }

    /// Whether both sets have the same features.
    friend constexpr bool operator==(Features, Features) = default;

  private:
    static constexpr unsigned bit(Feature f) { return 1u << static_cast<unsigned>(f); }
    unsigned bits_ = 0;
};

/// Which devices have a feature.
struct FeatureFacts {
    Feature feature;                     ///< which
    std::string_view name;               ///< in messages, such as "asynchronous copies (cp.async)"
    int first;                           ///< the first compute capability that has it: 80 for 8.0
    int last;                            ///< and the last
    bool architecture_specific = false;  ///< only code for exactly this architecture may use it: for 90a, not for 90
};

/// No compute capability is as high: for FeatureFacts::last.
inline constexpr int kEveryLaterOne = 999;

/// Every feature, in the order of the enumeration. (PTX ISA, "Target ISA Notes" of each instruction.)
inline constexpr std::array kFeatureFacts = {
    FeatureFacts{Feature::split_warps, "independent thread scheduling", 70, kEveryLaterOne},
    FeatureFacts{Feature::ldmatrix, "ldmatrix", 75, kEveryLaterOne},
    FeatureFacts{Feature::cp_async, "asynchronous copies (cp.async)", 80, kEveryLaterOne},
    FeatureFacts{Feature::mbarrier, "barriers in shared memory (mbarrier)", 80, kEveryLaterOne},
    FeatureFacts{Feature::mma, "mma.m16n8k16", 80, kEveryLaterOne},
    FeatureFacts{Feature::cache_hints, "hints to the L2 cache", 80, kEveryLaterOne},
    FeatureFacts{Feature::fp8, "8-bit floating point (e4m3, e5m2)", 89, kEveryLaterOne},
    FeatureFacts{Feature::early_launch, "programmatic dependent launch", 90, kEveryLaterOne},
    FeatureFacts{Feature::tma, "the tensor memory accelerator (TMA)", 90, kEveryLaterOne},
    FeatureFacts{Feature::wgmma, "wgmma", 90, 90, true},
    FeatureFacts{Feature::cluster, "thread block clusters", 90, kEveryLaterOne},
};

static_assert([] {
    unsigned place = 0;
    for (const FeatureFacts& f : kFeatureFacts)
        if (static_cast<unsigned>(f.feature) != place++) return false;
    return true;
}());

/// What devices of this compute capability have.
constexpr Features features_of(int major, int minor) {
    Features features;
    for (const FeatureFacts& f : kFeatureFacts)
        if (f.first <= 10 * major + minor && 10 * major + minor <= f.last) features.add(f.feature);
    return features;
}

/// "asynchronous copies (cp.async)"
constexpr std::string_view name_of(Feature feature) { return kFeatureFacts[static_cast<unsigned>(feature)].name; }

}  // namespace simt
