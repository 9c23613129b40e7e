// Clusters do the same on both machines: blocks that read and write each other's memory, arrive at each other's
// barriers, and fetch tiles for each other.

#include "tests/simt/cluster.h"

#include <gtest/gtest.h>

#include <string>

#include "common/simt/device/device_profile.h"
#include "common/simt/report/machine_error.h"
#include "tests/simt/on_device.h"

namespace ladder {

// cluster.cuh, compiled once per machine.
namespace cpu {
void launch_cluster_sum(const ClusterTrial&);
void launch_cluster_multicast(const ClusterTrial&);
void launch_cluster_stages(const ClusterTrial&);
}  // namespace cpu
namespace cuda {
[[gnu::weak]] void launch_cluster_sum(const ClusterTrial&);
[[gnu::weak]] void launch_cluster_multicast(const ClusterTrial&);
[[gnu::weak]] void launch_cluster_stages(const ClusterTrial&);
}  // namespace cuda

namespace {

class ClusterKernels : public ::testing::Test {
    simt::ScopedCpuDevice hopper_{simt::device_from(simt::device_profile("h200"))};
};

bool not_run_before_hopper() {
    const torch::Device device = reference::test_device();
    return device.is_cuda() && !device_limits(device).has_feature(simt::Feature::cluster) &&
           reference::not_run_on_gpu("needs thread block clusters");
}

TEST_F(ClusterKernels, ReadAndWriteEachOthersMemory) {
    if (not_run_before_hopper()) return;
    for (const int cluster : {1, 2, 4, 8}) {
        const int blocks = 3 * cluster;
        const torch::Tensor numbers = torch::randint(-50, 50, {blocks * kClusterThreads}, torch::kFloat32);
        const torch::Tensor sums = numbers.view({3, cluster * kClusterThreads}).sum(1);
        for (const torch::Device device : machines()) {
            const torch::Tensor in = numbers.to(device), out = torch::full({blocks, 4}, NAN, in.options());
            run_on(device, cpu::launch_cluster_sum, cuda::launch_cluster_sum,
                   ClusterTrial{.in = raw_argument("in", in),
                                .out = raw_argument("out", out),
                                .blocks = blocks,
                                .cluster = cluster});
            const torch::Tensor got = out.cpu();
            for (int b = 0; b < blocks; ++b) {
                SCOPED_TRACE(device.str() + ": block " + std::to_string(b) + ", clusters of " +
                             std::to_string(cluster));
                const int rank = b % cluster, before = (rank + cluster - 1) % cluster;
                EXPECT_EQ(got[b][0].item<float>(), sums[b / cluster].item<float>() + kClusterThreads);
                EXPECT_EQ(got[b][1].item<float>(), 400 * before + 6);
                EXPECT_EQ(got[b][2].item<float>(), rank);
                EXPECT_EQ(got[b][3].item<float>(), cluster);
            }
        }
    }
}

TEST_F(ClusterKernels, FetchTilesForEachOther) {
    if (not_run_before_hopper()) return;
    for (const int cluster : {1, 2, 4, 8})
        for (const int tiles : {1, 5})
            for (const torch::Device device : machines()) {
                SCOPED_TRACE(device.str() + ": " + std::to_string(tiles) + " tiles, clusters of " +
                             std::to_string(cluster));
                const int blocks = 2 * cluster;
                // The last tile hangs over the end: zeros.
                const int rows = tiles * kClusterRows - 5;
                const torch::Tensor in = torch::randn({rows, kClusterColumns}).to(device);
                const torch::Tensor out =
                    torch::full({blocks, tiles * kClusterRows, kClusterColumns}, NAN, in.options());
                run_on(device, cpu::launch_cluster_multicast, cuda::launch_cluster_multicast,
                       ClusterTrial{.in = raw_argument("in", in),
                                    .out = raw_argument("out", out),
                                    .blocks = blocks,
                                    .cluster = cluster});
                torch::Tensor expected = torch::zeros_like(out);
                expected.narrow(1, 0, rows).copy_(in.unsqueeze(0).expand({blocks, rows, kClusterColumns}));
                ASSERT_TRUE(same_bits(out, expected.cpu()));
            }
}

TEST_F(ClusterKernels, HandStagesToEachOther) {
    if (not_run_before_hopper()) return;
    for (const int turns : {1, 2, 9})
        for (const torch::Device device : machines()) {
            SCOPED_TRACE(device.str() + ": " + std::to_string(turns) + " turns");
            const torch::Tensor in = torch::randn({turns * kClusterThreads}).to(device);
            const torch::Tensor out = torch::full_like(in, NAN);
            run_on(device, cpu::launch_cluster_stages, cuda::launch_cluster_stages,
                   ClusterTrial{.in = raw_argument("in", in), .out = raw_argument("out", out)});
            ASSERT_TRUE(same_bits(out, 2 * in.cpu()));
        }
}

TEST_F(ClusterKernels, AreRefusedWhereTheGridIsNoMultiple) {
    if (not_run_before_hopper()) return;
    for (const torch::Device device : machines()) {
        const torch::Tensor in = torch::zeros({3 * kClusterThreads}).to(device), out = torch::zeros({3, 4}).to(device);
        try {
            run_on(device, cpu::launch_cluster_sum, cuda::launch_cluster_sum,
                   ClusterTrial{.in = raw_argument("in", in), .out = raw_argument("out", out), .blocks = 3});
            FAIL() << device << ": was not refused";
        } catch (const simt::LaunchError& error) {
            EXPECT_NE(std::string(error.what()).find("no multiple of the cluster (2, 1, 1)"), std::string::npos)
                << error.what();
        }
    }
}

}  // namespace
}  // namespace ladder
