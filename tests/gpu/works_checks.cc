#include "tests/gpu/works_checks.h"

namespace gpu_tests {

void fail(const std::string& what) {
  if (++failures <= 30) first_failures.push_back(what);
}

DeviceArena& buffers() {
  static DeviceArena arena(size_t(512) << 20);
  return arena;
}

bool expect_no_report(const World& world, const std::string& what) {
  for (int r = 0; r < world.shape.nranks; ++r)
    for (int c = 0; c < world.shape.channels; ++c) {
      const Report& report = world.report(r, c);
      if (report.code == ReportCode::none) continue;
      fail(what + ": rank " + std::to_string(r) + " channel " + std::to_string(c) +
           " aborted: code " + std::to_string(int(report.code)) + " waiting for rank " +
           std::to_string(report.peer) + " step " + std::to_string(report.step));
      return false;
    }
  return true;
}

bool runs(World& world, const Case& c, int threads, int channels) {
  ++cases;
  if (channels == 0) channels = world.shape.channels;
  buffers().clear();
  Placed placed(buffers(), c, world.shape.nranks);
  buffers().upload();
  std::vector<Work> works;
  std::vector<PairStep> rounds;
  HostSide host;
  for (int r = 0; r < world.shape.nranks; ++r)
    for (int ch = 0; ch < channels; ++ch) {
      works.push_back(placed.work(r, ch, channels));
      host.orders.push_back(placed.order(r));
      rounds.insert(rounds.end(), placed.rounds(r).begin(), placed.rounds(r).end());
    }
  const std::string what = describe(c, -1, world.shape.nranks);
  // With what the host knows, and without.
  host.rounds = rounds.data();
  if (!world.run(works, threads, kPatience, cases % 2 == 0 ? host : HostSide{})) {
    fail(what);
    return false;
  }
  if (!expect_no_report(world, what)) return false;
  buffers().download();
  placed.check();
  return true;
}

uint64_t chunk_bytes(const World& world, const AlgorithmRow& row, int slices) {
  if (row.window) return 0;
  const uint32_t most = most_slices(row, world.shape.slot_count);
  return uint64_t(std::min<uint32_t>(most, uint32_t(slices))) * world.shape.slot_data_bytes;
}

void fit_window(const World& world, const AlgorithmRow& row, Case& c) {
  if (row.window) c.chunk_bytes = world.shape.window_bytes / uint64_t(world.shape.nranks) / 16 * 16;
}

}  // namespace gpu_tests
