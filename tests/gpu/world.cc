#include "tests/gpu/world.h"
#include "kernels/cuda/launcher/launcher.h"

namespace gpu_tests {

World::World(const WorldShape& s) : shape(s), arena_(bytes_needed()) {
  const size_t ends = index(s.nranks - 1, s.nranks - 1, s.channels - 1, Protocol::ll128) + 1;
  send_ = arena_.take<Fifo*>(ends);
  recv_ = arena_.take<Fifo*>(ends);
  links_ = arena_.take<ChannelLinks>(size_t(s.nranks) * size_t(s.channels));
  for (int channel = 0; channel < s.channels; ++channel)
    for (int from = 0; from < s.nranks; ++from)
      for (int to = 0; to < s.nranks; ++to)
        for (int p = 0; p < kProtocolCount; ++p) connect(from, to, channel, Protocol(p));
  for (int r = 0; r < s.nranks; ++r)
    for (int c = 0; c < s.channels; ++c) {
      ChannelLinks& l = arena_.host(links_)[r * s.channels + c];
      l.send = send_ + index(r, 0, c, Protocol::simple);
      l.recv = recv_ + index(r, 0, c, Protocol::simple);
      host_links_.push_back({.send = arena_.host(l.send), .recv = arena_.host(l.recv)});
    }
  make_windows();
  arena_.upload();
  const size_t reports = size_t(s.nranks) * size_t(s.channels) * sizeof(Report);
  cuda_ok(cudaHostAlloc(&reports_, reports, cudaHostAllocMapped), "reports");
  cuda_ok(cudaHostAlloc(&abort_word_, sizeof(uint32_t), cudaHostAllocMapped), "abort word");
  std::memset(static_cast<void*>(reports_), 0, reports);
  *abort_word_ = 0;
}

World::~World() {
  cudaFreeHost(reports_);
  cudaFreeHost(abort_word_);
}

size_t World::bytes_needed() const {
  const size_t pairs = size_t(shape.nranks) * size_t(shape.nranks) * size_t(shape.channels);
  const size_t slots = size_t(shape.slot_data_bytes) * 5 * shape.slot_count;
  const size_t window = size_t(shape.nranks) * size_t(shape.channels) * (2 * shape.window_bytes);
  return pairs * (slots + 3 * 4096) + window + (1 << 20);
}

void World::connect(int from, int to, int channel, Protocol p) {
  const uint32_t bytes = slot_bytes(shape.slot_data_bytes, p);
  auto* counters = arena_.take<FifoCounters>(1);
  arena_.host(counters)->tail = arena_.host(counters)->head = shape.first_step;
  Fifo f{};
  f.slots = arena_.take(size_t(bytes) * shape.slot_count);
  std::memset(arena_.host(f.slots), shape.before, size_t(bytes) * shape.slot_count);
  f.tail = &counters->tail;
  f.head = &counters->head;
  f.records = arena_.take<SlotRecord>(shape.slot_count);
  f.step = shape.first_step;
  f.slot_bytes = bytes;
  f.slot_count = shape.slot_count;
  f.bell_fd = -1;
  f.channel = uint16_t(channel);
  f.protocol = p;
  Fifo* const ends = arena_.take<Fifo>(2);
  f.peer = to;
  f.flags = shape.sender_flags;
  arena_.host(ends)[0] = f;
  f.flags = 0;
  f.peer = from;
  arena_.host(ends)[1] = f;
  arena_.host(send_)[index(from, to, channel, p)] = ends;
  arena_.host(recv_)[index(to, from, channel, p)] = ends + 1;
}

// Rank r's part: all lines of all channels, then the banks.
void World::make_windows() {
  const uint64_t lines = uint64_t(shape.channels) * kWindowBanks * sizeof(WindowLine);
  const uint64_t banks = uint64_t(shape.channels) * kWindowBanks * shape.window_bytes;
  const uint64_t stride = (lines + banks + 255) / 256 * 256;
  uint8_t* base = arena_.take(stride * uint64_t(shape.nranks));
  for (int r = 0; r < shape.nranks; ++r)
    for (int c = 0; c < shape.channels; ++c) {
      Window w{};
      w.base = base;
      w.stride = stride;
      w.lines = uint64_t(c) * kWindowBanks * sizeof(WindowLine);
      w.banks = lines + uint64_t(c) * kWindowBanks * shape.window_bytes;
      w.bank_bytes = shape.window_bytes;
      w.rank = r;
      w.nranks = shape.nranks;
      Window* const there = arena_.take<Window>(1);
      *arena_.host(there) = w;
      arena_.host(links_)[r * shape.channels + c].window = there;
    }
}

bool World::run(std::vector<Work> works, int threads, int64_t timeout_ns, const HostSide& host) {
  if (!launch(std::move(works), threads, timeout_ns, host)) return false;
  cuda_ok(cudaDeviceSynchronize(), "the works");
  return true;
}

bool World::launch(std::vector<Work> works, int threads, int64_t timeout_ns, const HostSide& host) {
  const bool knows = !works.empty() && host.orders.size() == works.size();
  for (Work& w : works) w.channel = uint16_t(w.rank * shape.channels + w.channel);
  WorksLaunch launch;
  launch.works = works.data();
  launch.work_count = int(works.size());
  launch.protocol = works.empty() ? Protocol::simple : works[0].protocol;
  launch.threads = threads;
  launch.host_pairs = host.rounds;
  launch.host_links = host.rounds != nullptr || knows ? host_links_.data() : nullptr;
  launch.host_orders = knows ? host.orders.data() : nullptr;
  launch.slot_bytes = knows ? slot_bytes(shape.slot_data_bytes, launch.protocol) : 0;
  launch.shared = {reports_, abort_word_, timeout_ns, links_, waits.notes, waits.times};
  const auto& launcher = collctl::kernels::cuda::launcher();
  if (const int rc = launcher.launch_works(launch); rc != 0) {
    std::printf("FAILED launch: %s\n", launcher.error_text(rc));
    return false;
  }
  return true;
}

}  // namespace gpu_tests
