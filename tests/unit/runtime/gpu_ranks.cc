#include "tests/unit/runtime/gpu_ranks.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "base/check.h"
#include "kernels/algo/algorithms.h"
#include "kernels/cpu/launch.h"
#include "kernels/cuda/window_stand.h"
#include "kernels/shared_block.h"

namespace collctl::runtime::testing {
namespace {

using namespace kernels;
using kernels::cuda::DeviceShared;
using kernels::cuda::DirectPath;
using kernels::cuda::Launcher;
using kernels::cuda::WindowLaunch;
using kernels::cuda::WorksLaunch;

std::atomic<uint64_t> works_launches{0}, window_launches{0}, direct_launches{0},
    message_launches{0};

// As a kernel does where waits are counted: adds up its waits, and notes the one that goes on.
class CountedWaits {
 public:
  CountedWaits(const DeviceShared& shared, const Work& work, uint64_t blocks)
      : shared_(shared),
        ranks_(work.nranks),
        blocks_(blocks),
        log_(work.nranks, true),
        thread_([this] { note(); }) {}
  ~CountedWaits() {
    over_ = true;
    thread_.join();
    for (int peer = 0; peer < ranks_; ++peer) {
      const PeerWait one = log_.of(peer);
      std::atomic_ref(shared_.waits[peer].recv_ns) +=
          one.recv_ns * kernels::cuda::kWaitParts / blocks_;
      std::atomic_ref(shared_.waits[peer].send_ns) +=
          one.send_ns * kernels::cuda::kWaitParts / blocks_;
      std::atomic_ref(shared_.waits[peer].waits) += one.waits;
    }
  }
  WaitLog& log() { return log_; }

 private:
  void note() const {
    for (; !over_ && shared_.notes != nullptr; base::sleep_until(base::Deadline::after_ms(1)))
      for (const WaitLog::Now& now : log_.now()) {
        const WaitNote note{now.wait, now.since_ns, base::now_ns()};
        std::array<uint64_t, sizeof(note) / sizeof(uint64_t)> words;
        std::memcpy(words.data(), &note, sizeof(note));
        auto* const to = reinterpret_cast<uint64_t*>(&shared_.notes[now.wait.channel]);
        for (size_t i = 0; i < words.size(); ++i) std::atomic_ref<uint64_t>(to[i]).store(words[i]);
      }
  }
  const DeviceShared& shared_;
  const int ranks_;
  const uint64_t blocks_;
  WaitLog log_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

// As a kernel does: the report of the channel is written once, the others hear. `blocks`: of the
// launch.
bool run_one(const Work& work, const ChannelLinks& links, const DeviceShared& shared,
             uint64_t blocks, const FlatRange* flat = nullptr) {
  COLL_CHECK_NOTE(scratch_bytes(work) == 0 || work.scratch != nullptr, "the executor's to place");
  HelperPool helpers;
  CpuContext context;
  context.abort_word = shared.abort_word;
  context.op_timeout_ns = shared.timeout_ns;
  context.helpers = &helpers;
  context.flat = flat;
  std::optional<CountedWaits> waits;
  if (shared.waits != nullptr) context.waits = &waits.emplace(shared, work, blocks).log();
  if (run_work(work, links, context)) return true;
  Report& report = shared.reports[work.channel];
  if (std::atomic_ref<ReportCode>(report.code).load() == ReportCode::none) {
    // The code last, by which the report is found.
    static_assert(offsetof(Report, code) == 0);
    constexpr size_t kCode = sizeof(ReportCode);
    std::memcpy(reinterpret_cast<uint8_t*>(&report) + kCode,
                reinterpret_cast<const uint8_t*>(&context.report) + kCode, sizeof(Report) - kCode);
    std::atomic_ref<ReportCode>(report.code).store(context.report.code);
  }
  std::atomic_ref<uint32_t>(*shared.abort_word).store(1);
  return false;
}

void run_launch(const std::vector<Work>& works, const DeviceShared& shared) {
  std::map<int, std::vector<const Work*>> blocks;
  for (const Work& work : works) blocks[work.channel].push_back(&work);
  std::vector<std::thread> threads;
  for (const auto& [channel, list] : blocks)
    threads.emplace_back([&, links = &shared.links[channel], mine = &list] {
      for (const Work* work : *mine)
        if (!run_one(*work, *links, shared, blocks.size())) return;
    });
  for (auto& thread : threads) thread.join();
}

// The host memory that a launch brings along, as it was at the launch.
struct HostCopies {
  std::vector<PairStep> steps;
  std::vector<std::vector<Fifo*>> fifos;  // by work: to send, then to receive

  explicit HostCopies(const WorksLaunch& launch) {
    size_t count = 0;
    for (int w = 0; w < launch.work_count; ++w) {
      const Work& work = launch.works[w];
      count += work.pair_count;
      auto& list = fifos.emplace_back();
      // One rank alone has no links.
      if (work.pair_count == 0 || launch.host_links == nullptr) continue;
      const ChannelLinks& links = launch.host_links[work.channel];
      for (Fifo** side : {links.send, links.recv})
        list.insert(list.end(), side, side + work.nranks * kProtocolCount);
    }
    steps.assign(launch.host_pairs, launch.host_pairs + count);
  }
  // It must hold what the device's memory holds.
  void check(const std::vector<Work>& works, const DeviceShared& shared) const {
    const PairStep* step = steps.data();
    for (size_t w = 0; w < works.size(); ++w) {
      const Work& work = works[w];
      for (uint32_t k = 0; k < work.pair_count; ++k, ++step)
        COLL_CHECK(std::memcmp(step, work.pairs + k, sizeof(PairStep)) == 0);
      if (fifos[w].empty()) continue;
      const size_t half = fifos[w].size() / 2;
      const ChannelLinks& there = shared.links[work.channel];
      COLL_CHECK(std::equal(fifos[w].begin(), fifos[w].begin() + half, there.send));
      COLL_CHECK(std::equal(fifos[w].begin() + half, fifos[w].end(), there.recv));
    }
  }
};

int launch_works(const WorksLaunch& launch) {
  ++works_launches;
  return fake_cuda::enqueue(
      launch.stream, [works = std::vector<Work>(launch.works, launch.works + launch.work_count),
                      copies = HostCopies(launch), shared = launch.shared] {
        copies.check(works, shared);
        run_launch(works, shared);
      });
}

// A part: the window's own counts, its lines, where each peer shows its next message, its banks.
constexpr uint64_t kLinesAt = 128, kShownAt = 2048, kBanksAt = 4096, kBankBytes = 16 << 10;

// A message is shown to its receiver, who copies it directly. Each rank has the window at an
// address of its own, so the thread sanitizer sees no order in what is said there: it sees it here.
std::atomic<uint64_t> message_order{0};
struct Shown {
  const void* data;
  uint64_t bytes;
  uint32_t there;
};
static_assert(kShownAt + kMaxDeviceWindowRanks * sizeof(Shown) <= kBanksAt);
int launch_messages(const WindowLaunch& launch) {
  ++message_launches;
  const std::vector<PairStep> rounds(launch.rounds, launch.rounds + launch.work.pair_count);
  const uint64_t element = element_size(launch.work.type);
  return fake_cuda::enqueue(
      launch.stream, [rounds, element, memory = launch.memory, shared = launch.shared] {
        const auto shown = [&](int to, int from) -> Shown& {
          uint8_t* const part = memory.base + uint64_t(to) * memory.stride;
          return reinterpret_cast<Shown*>(part + kShownAt)[from];
        };
        const auto wait = [&](Shown& message, uint32_t there) {
          while (std::atomic_ref(message.there).load() != there) {
            if (std::atomic_ref(*shared.abort_word).load() != 0) return false;
            std::this_thread::yield();
          }
          ++message_order;
          return true;
        };
        const auto say = [](Shown& message, uint32_t there) {
          ++message_order;
          std::atomic_ref(message.there).store(there);
        };
        for (const PairStep& step : rounds) {
          if (step.send_peer >= 0) {
            Shown& message = shown(step.send_peer, memory.rank);
            message.data = step.send;
            message.bytes = step.send_count * element;
            say(message, 1);
          }
          if (step.recv_peer >= 0) {
            Shown& message = shown(memory.rank, step.recv_peer);
            if (!wait(message, 1)) return;
            COLL_CHECK(message.bytes == step.recv_count * element);
            std::memcpy(step.recv, message.data, message.bytes);
            say(message, 0);
          }
          if (step.send_peer >= 0 && !wait(shown(step.send_peer, memory.rank), 0)) return;
        }
      });
}

// As the window kernels do it: whoever is in an operation has arrived once for it at least.
bool window_stand(const kernels::cuda::PeerMemory& memory, const kernels::cuda::ReadMemory& read,
                  kernels::cuda::WindowStand& stand) {
  std::vector<uint64_t> arrived(size_t(memory.nranks) * kWindowBanks);
  std::vector<kernels::cuda::MemoryRead> list;
  for (size_t i = 0; i < arrived.size(); ++i)
    list.push_back({&arrived[i],
                    memory.base + i / kWindowBanks * memory.stride + kLinesAt +
                        i % kWindowBanks * sizeof(WindowLine) + offsetof(WindowLine, arrived),
                    sizeof(uint64_t)});
  if (!read(list)) return false;
  const auto last = [&](int rank) {
    const auto* const at = &arrived[size_t(rank) * kWindowBanks];
    return *std::max_element(at, at + kWindowBanks);
  };
  const uint64_t mine = last(memory.rank);
  for (int r = 0; r < memory.nranks; ++r)
    if (last(r) < mine) stand.missing.push_back(r);
  stand.inside = !stand.missing.empty();
  stand.ended = mine - stand.inside;
  return true;
}

int launch_window(const WindowLaunch& launch) {
  if (launch.rounds != nullptr) return launch_messages(launch);
  const bool direct = launch.direct != DirectPath::none;
  ++(direct ? direct_launches : window_launches);
  // Works say so themselves on the host.
  COLL_CHECK(direct == shares_buffers(launch.work));
  return fake_cuda::enqueue(launch.stream, [launch] {
    const auto& memory = launch.memory;
    auto& window = *reinterpret_cast<Window*>(memory.base + uint64_t(memory.rank) * memory.stride);
    window.base = memory.base;
    window.stride = memory.stride;
    window.lines = kLinesAt;
    window.banks = kBanksAt;
    window.bank_bytes = kBankBytes;
    window.rank = memory.rank;
    window.nranks = memory.nranks;
    Work work = launch.work;
    work.chunk_count = kBankBytes / uint64_t(memory.nranks) / 16 * 16 / element_size(work.type);
    DeviceShared shared = launch.shared;
    shared.notes = nullptr;  // kernels made for windows write none
    run_one(work, {.send = nullptr, .recv = nullptr, .window = &window}, shared, 1, &launch.flat);
  });
}

bool window_serves(Collective collective, AlgorithmId algorithm, Protocol protocol, DataType, RedOp,
                   int nranks, uint64_t bytes) {
  if (collective == Collective::send_recv)
    return algorithm == AlgorithmId::pairwise && protocol == Protocol::simple;
  return collective == Collective::all_reduce && protocol != Protocol::ll128 && nranks > 1 &&
         bytes <= (protocol == Protocol::ll ? kHostLlBytes : kHostWindowBytes);
}

bool window_direct(Collective collective, DataType, RedOp, int nranks, uint64_t) {
  return collective != Collective::send_recv && collective != Collective::barrier && nranks > 1;
}

}  // namespace

const Launcher& host_launcher() {
  static const Launcher table{
      .built = true,
      .architectures = "host",
      .why_not = "",
      .most_works = 5,  // few, so that launches are split
      .launch_works = launch_works,
      .window_part_bytes = [](int) { return kBanksAt + kWindowBanks * kBankBytes; },
      .window_host_bytes = [](int) { return kBanksAt + kWindowBanks * kBankBytes; },
      .window_own_bytes = [](int) { return kBanksAt; },
      .window_serves = window_serves,
      .window_direct = window_direct,
      .launch_window = launch_window,
      .window_stand = window_stand,
      .runs_on = [](int capability) { return capability >= 80; },
      .has_type = [](DataType, int) { return true; },
      .error_text = [](int) { return "the launcher's own words"; },
      .torn_store_write = [](void*, uint32_t, uint32_t, void*) { return 801; },
      .torn_store_read = [](void*, uint32_t, uint32_t, uint32_t*, const uint32_t*, int64_t,
                            void*) { return 801; },
  };
  return table;
}

LaunchCounts launch_counts() {
  return {works_launches.load(), window_launches.load(), direct_launches.load(),
          message_launches.load()};
}

std::vector<Result<std::unique_ptr<Communicator>>> try_gpu_job(const GpuJob& job) {
  const Root root = make_root();
  std::vector<std::optional<Result<std::unique_ptr<Communicator>>>> made(size_t(job.ranks));
  on_all(job.ranks, [&](int r) {
    CommOptions options = job.options;
    options.device = job.device_of ? job.device_of(r) : r;
    options.launcher = job.launcher;
    if (!job.hosts.empty()) options.host_id = "host " + std::to_string(job.hosts[size_t(r)]);
    made[size_t(r)] = Communicator::init(root.id, r, job.ranks, options);
  });
  std::vector<Result<std::unique_ptr<Communicator>>> results;
  for (auto& each : made) results.push_back(std::move(*each));
  return results;
}

Communicators start_gpu_job(const GpuJob& job) {
  auto results = try_gpu_job(job);
  Communicators communicators;
  for (auto& result : results) {
    INFO((result ? "" : result.error().chain()));
    REQUIRE(result);
    communicators.push_back(std::move(*result));
  }
  return communicators;
}

std::string with_gpu_ranks(const GpuJob& job,
                           const std::function<void(Communicator&, Complaints&)>& body) {
  Complaints complaints;
  {
    const Communicators communicators = start_gpu_job(job);
    on_all(job.ranks, [&](int r) {
      Communicator& c = *communicators[size_t(r)];
      body(c, complaints);
      complaints.add(r, c.finalize(Deadline::after_seconds(60)));
    });
  }
  if (fake_cuda::counts() != fake_cuda::Counts{})
    complaints.add("left behind: " + fake_cuda::counts().text());
  return complaints.text();
}

}  // namespace collctl::runtime::testing
