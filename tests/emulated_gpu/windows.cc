#include "tests/emulated_gpu/windows.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "kernels/cuda/window_layout.h"
#include "kernels/cuda/window_stand.h"
#include "tests/emulated_gpu/machine.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) (void)(at), (void)(bytes)
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) (void)(at), (void)(bytes)
#endif

namespace emulated_tests {

namespace {

using namespace collctl::kernels::cuda;

uint8_t* map(uint64_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no memory for the windows");
  return static_cast<uint8_t*>(memory);
}

// Past the sanitizer, which hears that most of it may not be touched.
#if defined(__SANITIZE_ADDRESS__)
__attribute__((no_sanitize("address")))
#endif
void read_back(std::vector<uint8_t>& to, const uint8_t* from) {
  const volatile uint8_t* const all = from;
  for (size_t i = 0; i < to.size(); ++i) to[i] = all[i];
}

bool many_in(Collective c) {
  return c == Collective::reduce_scatter || c == Collective::all_to_all || c == Collective::scatter;
}
bool many_out(Collective c) {
  return c == Collective::all_gather || c == Collective::all_to_all || c == Collective::gather;
}

}  // namespace

std::string describe(const WindowCase& c, int nranks) {
  std::string text = cpu_tests::describe(c.what, -1, nranks) + " direct " +
                     std::to_string(int(c.direct)) + " blocks " + std::to_string(c.blocks) +
                     " chunk " + std::to_string(c.chunk_bytes) + " times " +
                     std::to_string(c.times) + " misalign";
  for (const size_t m : c.misalign) text += " " + std::to_string(m);
  return text;
}

bool served(const WindowCase& c, int nranks, In in) {
  if (in == In::host && (c.direct != DirectPath::none || c.what.protocol == Protocol::ll128))
    return false;
  const uint64_t bytes = c.what.count * element_size(c.what.type);
  if (c.direct != DirectPath::none)
    return window_direct(c.what.collective, c.what.type, c.what.op, nranks, bytes);
  if (c.what.algorithm == AlgorithmId::pairwise)
    return window_serves(Collective::send_recv, c.what.algorithm, c.what.protocol, c.what.type,
                         c.what.op, nranks, bytes);
  return window_serves(c.what.collective, c.what.algorithm, c.what.protocol, c.what.type, c.what.op,
                       nranks, bytes);
}

Windows::Windows(int n, uint64_t epoch, In where)
    : nranks(n),
      in(where),
      layout_(window_layout(n, where)),
      stride_(align_up(in == In::host ? window_host_bytes(n) : window_part_bytes(n), 4096)),
      used_(size_t(n)) {
  parts_ = map(stride_ * uint64_t(n));
  owns_ = map(own_stride() * uint64_t(n));
  users_ = map(kSlotBytes * uint64_t(n));
  emulated::machine().arrives_late(parts_, stride_ * uint64_t(n));
  emulated::machine().arrives_late(owns_, own_stride() * uint64_t(n));
  emulated::machine().arrives_late(users_, kSlotBytes * uint64_t(n));
  reports_.resize(size_t(n));
  waits_.assign(size_t(n), std::vector<PeerWait>(size_t(n)));
  for (int r = 0; r < n; ++r) {
    uint8_t* const own = in == In::host ? memory_of(r).own : parts_ + uint64_t(r) * stride_;
    std::fill_n(reinterpret_cast<uint64_t*>(own + layout_.epochs), kWindowBlocks, epoch);
  }
}
Windows::~Windows() {
  emulated::machine().forget_memory(parts_);
  emulated::machine().forget_memory(owns_);
  emulated::machine().forget_memory(users_);
  ASAN_UNPOISON_MEMORY_REGION(users_, kSlotBytes * uint64_t(nranks));
  munmap(parts_, stride_ * uint64_t(nranks));
  munmap(owns_, own_stride() * uint64_t(nranks));
  munmap(users_, kSlotBytes * uint64_t(nranks));
}

uint64_t Windows::own_stride() const {
  return align_up(window_own_bytes(nranks), 4096);
}
PeerMemory Windows::memory_of(int rank) const {
  return {parts_, stride_, rank, nranks,
          in == In::host ? owns_ + uint64_t(rank) * own_stride() : nullptr};
}

// At other places on other ranks; offsets from 16 bytes stay.
uint8_t* Windows::put(int rank, const std::vector<uint8_t>& memory) {
  uint64_t& used = used_[size_t(rank)];
  uint8_t* const to = slot(rank) + used + uint64_t(rank) * 16;
  if (used + memory.size() + 4096 > kSlotBytes) throw std::runtime_error("a slot is full");
  if (!memory.empty()) std::memcpy(to, memory.data(), memory.size());
  used = align_up(used + memory.size() + uint64_t(rank) * 16 + 1024, 256);
  return to;
}

// Rounds of messages; what a rank sends itself does not go through its window.
int Windows::launch_rounds(WindowLaunch l, const std::vector<PairStep>& steps) {
  const int me = l.memory.rank;
  const uint64_t element = element_size(l.work.type);
  std::vector<PairStep> rounds;
  for (const PairStep& step : steps) {
    if (step.send_peer != me || step.recv_peer != me) {
      rounds.push_back(step);
      continue;
    }
    emulated::machine().launch(l.stream, 1, 1, [step, bytes = step.send_count * element] {
      if (bytes > 0 && step.send != step.recv) std::memcpy(step.recv, step.send, bytes);
    });
  }
  l.work.collective = Collective::send_recv;
  l.work.input = l.work.output = nullptr;
  l.work.count = 0;
  l.work.pair_count = uint32_t(rounds.size());
  l.rounds = rounds.data();
  return rounds.empty() ? 0 : launch_window(l);
}

std::string Windows::launch(const WindowCase& c, int without) {
  const uint64_t bytes = c.what.count * element_size(c.what.type);
  for (int r = 0; r < nranks; ++r) {
    if (r == without) continue;
    Case mine = c.what;
    mine.misalign = c.misalign[size_t(r)];
    Placed placed{std::make_unique<Operation>(mine, r, nranks)};
    Operation& op = *placed.operation;
    const uint64_t before = used_[size_t(r)];
    placed.memory = put(r, op.memory());
    placed.input = put(r, op.input_memory());
    ASAN_POISON_MEMORY_REGION(slot(r) + before, used_[size_t(r)] - before);
    const auto there = [&](const void* p) -> uint8_t* {
      const auto* at = static_cast<const uint8_t*>(p);
      const std::vector<uint8_t>& memory = op.memory();
      const bool inside = at >= memory.data() && at <= memory.data() + memory.size();
      return inside ? placed.memory + (at - memory.data())
                    : placed.input + (at - op.input_memory().data());
    };
    WindowLaunch l{};
    l.work = op.work();
    l.work.input = there(l.work.input);
    l.work.output = there(l.work.output);
    l.work.pairs = nullptr;
    l.memory = memory_of(r);
    l.direct = c.direct;
    if (c.direct != DirectPath::none) l.flat = {users_, kSlotBytes};
    l.blocks = c.blocks;
    l.chunk_bytes = c.chunk_bytes;
    l.shared = {&reports_[size_t(r)],
                &abort_word_,
                timeout_ns,
                nullptr,
                nullptr,
                (counting >> r & 1) != 0 ? waits_[size_t(r)].data() : nullptr};
    l.stream = &reports_[size_t(r)];  // one of its own
    const bool messages = c.what.algorithm == AlgorithmId::pairwise;
    std::vector<PairStep> steps;
    for (int k = 0; messages && k < c.times; ++k)
      steps.insert(steps.end(), op.pairs().begin(), op.pairs().end());
    for (PairStep& step : steps) {
      step.send = there(step.send);
      step.recv = there(step.recv);
    }
    const int rc = messages ? launch_rounds(l, steps) : launch_window(l);
    if (rc != 0) return "refused: " + std::to_string(rc);
    // The next work on the stream finds the results, though other ranks may not be done.
    emulated::machine().launch(l.stream, 1, 1,
                               [&op, from = placed.memory] { read_back(op.memory(), from); });
    placed_.push_back(std::move(placed));
    // The memory that may be touched.
    const auto all = uint64_t(nranks);
    ASAN_UNPOISON_MEMORY_REGION(l.work.input, bytes * (many_in(c.what.collective) ? all : 1));
    ASAN_UNPOISON_MEMORY_REGION(l.work.output, bytes * (many_out(c.what.collective) ? all : 1));
  }
  return "";
}

void Windows::hold_up(int rank, uint64_t looks) {
  emulated::machine().launch(&reports_[size_t(rank)], 1, 1, [looks] {
    for (uint64_t i = 0; i < looks; ++i) emulated::machine().look();
  });
}

uint64_t Windows::waited_ns(int rank, int peer) const {
  uint64_t sum = 0;
  for (int p = 0; p < nranks; ++p) {
    const PeerWait& one = waits_[size_t(rank)][size_t(p)];
    if (peer < 0 || p == peer) sum += one.recv_ns + one.send_ns;
  }
  return sum / kWaitParts;
}

void Windows::look_after(uint64_t looks) {
  emulated::machine().launch(&seen_, 1, 1, [this, looks] {
    for (uint64_t i = 0; i < looks; ++i) emulated::machine().look();
    seen_.resize(size_t(nranks));
    for (int r = 0; r < nranks; ++r)
      seen_[size_t(r)].known = window_stand(
          memory_of(r),
          [](std::span<const MemoryRead> list) {
            for (const MemoryRead& one : list) std::memcpy(one.to, one.from, one.bytes);
            return true;
          },
          seen_[size_t(r)].stand);
    abort_word_ = 1;
  });
}

std::string Windows::finish() {
  std::string wrong = finish_anyhow();
  for (int r = 0; r < nranks && wrong.empty(); ++r) {
    const Report& report = reports_[size_t(r)];
    if (report.code != ReportCode::none)
      wrong = "rank " + std::to_string(r) + " aborted: code " + std::to_string(int(report.code)) +
              ", of rank " + std::to_string(report.peer) + " seen " + std::to_string(report.seen) +
              " wanted " + std::to_string(report.wanted);
  }
  ASAN_UNPOISON_MEMORY_REGION(users_, kSlotBytes * uint64_t(nranks));
  for (const Placed& placed : placed_) {
    if (!wrong.empty()) break;
    wrong = placed.operation->check();
  }
  placed_.clear();
  std::fill(used_.begin(), used_.end(), 0);
  return wrong;
}

std::string Windows::finish_anyhow() {
  return emulated::machine().run();
}

}  // namespace emulated_tests
