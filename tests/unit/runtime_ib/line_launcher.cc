#include "tests/unit/runtime_ib/line_launcher.h"

#include <cstring>
#include <map>

#include "kernels/algo/algorithms.h"
#include "kernels/algo/dispatch.h"
#include "kernels/cpu/cpu_work.h"
#include "kernels/slices.h"

namespace collctl::runtime::testing {
namespace {

using namespace kernels;
using kernels::cuda::DeviceShared;
using kernels::cuda::Launcher;
using kernels::cuda::WorksLaunch;

constexpr size_t kWords = kLl128LineBytes / sizeof(uint64_t);

std::atomic<uint64_t> launches{0};

uint64_t load(const uint64_t* word) {
  return std::atomic_ref<uint64_t>(*const_cast<uint64_t*>(word)).load(std::memory_order_acquire);
}
void store(uint64_t* word, uint64_t value) {
  std::atomic_ref<uint64_t>(*word).store(value, std::memory_order_release);
}

struct LineEnd {
  Fifo* fifo = nullptr;
  uint64_t* line(uint64_t number) const {
    uint8_t* const slot = fifo->slots + fifo->step % fifo->slot_count * fifo->slot_bytes;
    return reinterpret_cast<uint64_t*>(slot + number * kLl128LineBytes);
  }
};

class LineBlock {
 public:
  LineBlock(CpuWork& work, const BlockSpec& spec) : work_(work), spec_(spec) {
    const auto at = [&](int peer) { return peer * kProtocolCount + int(Protocol::ll128); };
    for (const int peer : spec.recv)
      if (peer >= 0) from_.push_back({work.links.recv[at(peer)]});
    for (const int peer : spec.send)
      if (peer >= 0) to_.push_back({work.links.send[at(peer)]});
  }
  void send(uint64_t in, uint64_t n) { move(input(in), nullptr, false, true, n, false); }
  void send_from_output(uint64_t out, uint64_t n) {
    move(output(out), nullptr, false, true, n, false);
  }
  void copy_send(uint64_t in, uint64_t out, uint64_t n) {
    move(input(in), output(out), false, true, n, false);
  }
  void recv(uint64_t out, uint64_t n) { move(nullptr, output(out), true, false, n, false); }
  void recv_send(uint64_t n) { move(nullptr, nullptr, true, true, n, false); }
  void recv_copy_send(uint64_t out, uint64_t n) {
    move(nullptr, output(out), true, true, n, false);
  }
  void recv_reduce(uint64_t in, uint64_t out, uint64_t n, bool post) {
    move(input(in), output(out), true, false, n, post);
  }
  void recv_reduce_send(uint64_t in, uint64_t n) { move(input(in), nullptr, true, true, n, false); }
  void recv_reduce_copy_send(uint64_t in, uint64_t out, uint64_t n, bool post) {
    move(input(in), output(out), true, true, n, post);
  }

 private:
  uint8_t* input(uint64_t element) const {
    return static_cast<uint8_t*>(const_cast<void*>(spec_.input)) + element * work_.element_bytes;
  }
  uint8_t* output(uint64_t element) const {
    return static_cast<uint8_t*>(spec_.output) + element * work_.element_bytes;
  }

  void move(const uint8_t* in, uint8_t* out, bool receives, bool sends, uint64_t n, bool post) {
    const Fifo* any = !from_.empty() ? from_[0].fifo : !to_.empty() ? to_[0].fifo : nullptr;
    if (n == 0 || (in == nullptr && from_.empty())) return;
    const uint64_t all = n * work_.element_bytes;
    const Slices cut =
        cut_into_slices(n, work_.element_bytes,
                        any == nullptr ? all : slot_data_bytes(any->slot_bytes, any->protocol));
    const uint64_t each = cut.elements_each * work_.element_bytes;
    for (uint64_t at = 0; at < all && !work_.failed(); at += each)
      slice(in == nullptr ? nullptr : in + at, out == nullptr ? nullptr : out + at, receives, sends,
            std::min(each, all - at), post);
  }

  void slice(const uint8_t* in, uint8_t* out, bool receives, bool sends, uint64_t bytes,
             bool post) {
    std::vector<std::vector<uint8_t>> got;
    std::vector<const void*> sources;
    if (in != nullptr) sources.push_back(in);
    if (receives)
      for (const LineEnd& end : from_) {
        got.emplace_back(bytes);
        if (!read(end, got.back())) return;
      }
    for (const auto& data : got) sources.push_back(data.data());
    std::vector<uint8_t> result(bytes);
    void* to = result.data();
    const uint32_t divisor = post ? work_.post_divisor : 1;
    if (sources.size() > 1 || divisor > 1)
      work_.reduce(sources.data(), int(sources.size()), &to, 1, bytes / work_.element_bytes,
                   divisor);
    else
      std::memcpy(to, sources[0], bytes);
    if (out != nullptr) std::memcpy(out, to, bytes);
    if (sends)
      for (const LineEnd& end : to_)
        if (!write(end, result)) return;
    if (!receives) return;
    for (const LineEnd& end : from_) store(end.fifo->head, ++end.fifo->step);
  }

  bool wait(const LineEnd& end, WaitSide side, const uint64_t* word, uint64_t wanted,
            bool exactly) {
    const Deadline deadline = Deadline::after_ns(work_.context.op_timeout_ns);
    for (uint64_t seen; seen = load(word), exactly ? seen != wanted : seen < wanted;) {
      if (work_.aborted() || deadline.passed()) {
        Report report = work_.report(work_.aborted() ? ReportCode::aborted : ReportCode::timeout);
        report.side = side;
        report.peer = end.fifo->peer;
        report.step = end.fifo->step;
        report.seen = seen;
        report.wanted = wanted;
        work_.fail(report);
        return false;
      }
      base::yield_thread();
    }
    return true;
  }

  // Each line as soon as its flag is there, whatever a counter says.
  bool read(const LineEnd& end, std::vector<uint8_t>& data) {
    for (uint64_t at = 0, l = 0; at < data.size(); at += kLl128DataBytes, ++l) {
      uint64_t* const line = end.line(l);
      if (!wait(end, WaitSide::recv, line + kWords - 1, end.fifo->step + 1, true)) return false;
      uint64_t words[kWords];
      for (size_t w = 0; w < kWords; ++w) words[w] = load(line + w);
      std::memcpy(data.data() + at, words, std::min<uint64_t>(kLl128DataBytes, data.size() - at));
    }
    return true;
  }

  bool write(const LineEnd& end, const std::vector<uint8_t>& data) {
    Fifo& fifo = *end.fifo;
    if (fifo.step >= fifo.slot_count &&
        !wait(end, WaitSide::send, fifo.head, fifo.step + 1 - fifo.slot_count, false))
      return false;
    uint64_t lines = 0;
    for (uint64_t at = 0; at < data.size(); at += kLl128DataBytes, ++lines) {
      uint64_t words[kWords] = {};
      std::memcpy(words, data.data() + at, std::min<uint64_t>(kLl128DataBytes, data.size() - at));
      for (size_t w = 0; w + 1 < kWords; ++w) store(end.line(lines) + w, words[w]);
      store(end.line(lines) + kWords - 1, fifo.step + 1);
    }
    if ((fifo.flags & kFifoProxyReads) != 0) {
      fifo.records[fifo.step % fifo.slot_count].bytes = uint32_t(lines * kLl128LineBytes);
      store(fifo.tail, fifo.step + 1);
    }
    ++fifo.step;
    return true;
  }

  CpuWork& work_;
  const BlockSpec spec_;
  std::vector<LineEnd> from_, to_;
};

class LineBackend {
 public:
  explicit LineBackend(CpuWork& work) : work_(work) {}
  template <int kFanIn, int kFanOut, class Body>
  void block(const BlockSpec& spec, Body&& body) {
    if (failed()) return;
    LineBlock b(work_, spec);
    body(b);
  }
  template <class Up, class Down>
  void split(Up&& up, Down&& down) {
    std::thread other([&] {
      LineBackend part(work_);
      down(part);
    });
    up(*this);
    other.join();
  }
  void copy(const void* from, void* to, uint64_t n) {
    if (n > 0 && from != to) std::memcpy(to, from, n * work_.element_bytes);
  }
  bool failed() const { return work_.failed(); }

 private:
  CpuWork& work_;
};

// Reports as a kernel does: once a channel, and the others are told.
void run_lines(const Work& work, const ChannelLinks& links, const DeviceShared& shared) {
  CpuContext context;
  context.abort_word = shared.abort_word;
  context.op_timeout_ns = shared.timeout_ns;
  CpuWork running(work, links, context);
  LineBackend backend(running);
  const bool ran = run_algorithm(backend, work);
  if (ran && !running.failed()) return;
  if (!ran) context.report = running.report(ReportCode::bad_data);
  Report& report = shared.reports[work.channel];
  if (std::atomic_ref<ReportCode>(report.code).load() == ReportCode::none) {
    constexpr size_t kCode = sizeof(ReportCode);
    std::memcpy(reinterpret_cast<uint8_t*>(&report) + kCode,
                reinterpret_cast<const uint8_t*>(&context.report) + kCode, sizeof(Report) - kCode);
    std::atomic_ref<ReportCode>(report.code).store(context.report.code);
  }
  std::atomic_ref<uint32_t>(*shared.abort_word).store(1);
}

int launch_works(const WorksLaunch& launch) {
  if (launch.protocol != Protocol::ll128) return host_launcher().launch_works(launch);
  ++launches;
  return fake_cuda::enqueue(
      launch.stream, [works = std::vector<Work>(launch.works, launch.works + launch.work_count),
                      shared = launch.shared] {
        std::map<int, std::vector<const Work*>> blocks;
        for (const Work& work : works) blocks[work.channel].push_back(&work);
        std::vector<std::thread> threads;
        for (const auto& [channel, list] : blocks)
          threads.emplace_back([&, links = &shared.links[channel], mine = &list] {
            for (const Work* work : *mine) run_lines(*work, *links, shared);
          });
        for (auto& thread : threads) thread.join();
      });
}

int write_lines(void* lines, uint32_t count, uint32_t rounds, void* stream) {
  return fake_cuda::enqueue(stream, [=] {
    auto* const word = static_cast<uint64_t*>(lines);
    if (rounds == 0) return;
    for (size_t i = 0; i < count * kWords; ++i) store(word + i, rounds);
  });
}

// As the kernel: every round of every line that it gets to see.
int read_lines(void* lines, uint32_t count, uint32_t rounds, uint32_t* torn,
               const uint32_t* abort_word, int64_t timeout_ns, void* stream) {
  return fake_cuda::enqueue(stream, [=] {
    const auto* const word = static_cast<const uint64_t*>(lines);
    std::vector<uint64_t> seen(count);
    uint32_t found = 0;
    Deadline deadline = Deadline::after_ns(timeout_ns);
    for (size_t left = rounds == 0 ? 0 : count; left > 0; base::yield_thread())
      for (size_t l = 0; l < count; ++l) {
        if (deadline.passed() ||
            std::atomic_ref<uint32_t>(*const_cast<uint32_t*>(abort_word)).load() != 0)
          return std::atomic_ref<uint32_t>(*torn).store(kernels::cuda::kTornStoreAborted);
        const uint64_t flag = load(word + l * kWords + kWords - 1);
        if (flag == seen[l]) continue;
        deadline = Deadline::after_ns(timeout_ns);
        seen[l] = flag;
        left -= flag == rounds ? 1 : 0;
        bool old = false;
        for (size_t w = 0; w + 1 < kWords; ++w) old |= load(word + l * kWords + w) < flag;
        found += old ? 1 : 0;
      }
    std::atomic_ref<uint32_t>(*torn).store(found);
  });
}

}  // namespace

const Launcher& line_launcher() {
  static const Launcher table = [] {
    Launcher made = host_launcher();
    made.launch_works = launch_works;
    made.torn_store_write = write_lines;
    made.torn_store_read = read_lines;
    return made;
  }();
  return table;
}

uint64_t line_launches() {
  return launches.load();
}

}  // namespace collctl::runtime::testing
