// The stages of window-test about mapping and registration.
#include <algorithm>

#include "base/format.h"
#include "base/log.h"
#include "cmd/job/config.h"
#include "cmd/text/sizes.h"
#include "cmd/window_test/window_test.h"
#include "runtime/window/memory.h"

namespace collctl::cmd {
namespace {

using runtime::WindowPointer;

constexpr uint64_t kStripe = 16 << 10;  // of a window, for each rank that writes into it
constexpr int kRounds = 30;             // of registration
constexpr int kMostWindows = 8;         // at the same time
constexpr uint64_t kFilling = 4 << 20;  // a window of those that fill a slot
constexpr uint64_t kMostToFill = 256 << 20;

// Bytes of a stripe that a stride touches from an offset on; at(k): the k-th.
struct Walk {
  uint64_t stride, offset;
  uint64_t count() const {
    constexpr uint64_t kMost = 48;
    return std::min(kMost, (kStripe - offset + stride - 1) / stride);
  }
  uint64_t at(uint64_t k) const { return offset + k * stride; }
};
constexpr Walk kWalks[] = {{1, 0},    {1, 4093},  {3, 1},     {7, 16000}, {64, 63},
                           {63, 64},  {1000, 8},  {4096, 1},  {4097, 0},  {4095, 4095},
                           {8192, 5}, {1, 16383}, {333, 333}, {16383, 0}, {512, 4096}};

// The job cannot go on after these.
bool grave(const Error& error) {
  return error.code != ErrorCode::usage && error.code != ErrorCode::unavailable;
}

}  // namespace

// Every owner writes its whole window, everybody looks; every rank writes its stripe into
// everybody's window, the owners look.
Status WindowTest::aliasing(WindowFindings& found) {
  const auto bytes = uint64_t(size()) * kStripe;
  COLL_ASSIGN(Memory memory, make(bytes));
  std::vector<uint8_t> buffer(bytes);
  fill_pattern(buffer, {rank(), rank(), 0}, 0);
  COLL_TRY(write(memory.address, buffer));
  COLL_TRY(barrier());
  for (int owner = 0; owner < size(); ++owner) {
    COLL_TRY(look_at(memory, owner, 0, buffer));
    found.compare(buffer, {owner, owner, 0}, 0, size(),
                  format("the window of rank {} as seen here", owner));
  }
  COLL_TRY(barrier());
  const uint64_t mine = uint64_t(rank()) * kStripe;
  for (int owner = 0; owner < size(); ++owner) {
    const auto stripe = std::span(buffer).first(kStripe);
    fill_pattern(stripe, {owner, rank(), 1}, mine);
    COLL_TRY(one_sided_->put({memory.window, owner, mine}, stripe.data(), kStripe, deadline()));
  }
  COLL_TRY(barrier());
  COLL_TRY(read(memory.address, buffer));
  for (int writer = 0; writer < size(); ++writer) {
    const uint64_t at = uint64_t(writer) * kStripe;
    found.compare(std::span(buffer).subspan(at, kStripe), {rank(), writer, 1}, at, size(),
                  format("what rank {} wrote into this rank's window", writer));
  }
  return give_back({&memory, 1});
}

// Every rank writes bytes of many strides and offsets into its stripe of every window; the owner
// compares whole stripes with what they should be, so that a byte beside the right place is seen.
Status WindowTest::strides(WindowFindings& found) {
  const auto bytes = uint64_t(size()) * kStripe;
  COLL_ASSIGN(Memory memory, make(bytes));
  std::vector<uint8_t> buffer(bytes, 0), expected(bytes, 0);
  const uint64_t mine = uint64_t(rank()) * kStripe;
  uint64_t round = 0;
  for (const Walk& walk : kWalks) {
    ++round;
    for (int owner = 0; owner < size(); ++owner)
      for (uint64_t k = 0; k < walk.count(); ++k) {
        const uint64_t at = mine + walk.at(k);
        const uint8_t byte = pattern_byte({owner, rank(), round}, at);
        COLL_TRY(one_sided_->put({memory.window, owner, at}, &byte, 1, deadline()));
      }
    COLL_TRY(barrier());
    COLL_TRY(read(memory.address, buffer));
    for (int writer = 0; writer < size(); ++writer) {
      const uint64_t from = uint64_t(writer) * kStripe;
      for (uint64_t k = 0; k < walk.count(); ++k)
        expected[from + walk.at(k)] = pattern_byte({rank(), writer, round}, from + walk.at(k));
      found.looked();
      const auto begin = expected.begin() + int64_t(from);
      const auto differ =
          std::mismatch(begin, begin + int64_t(kStripe), buffer.begin() + int64_t(from));
      if (differ.first == begin + int64_t(kStripe)) continue;
      found.fail(
          ErrorCode::bad_data, writer,
          format("of rank {}, stride {} from {}: byte {} of the stripe is {:02x}, not {:02x}",
                 writer, walk.stride, walk.offset, differ.first - begin, *differ.second,
                 *differ.first));
    }
    COLL_TRY(barrier());
  }
  return give_back({&memory, 1});
}

// Windows of many sizes in one registration; every byte of each, as everybody sees it.
Status WindowTest::sizes(WindowFindings& found) {
  const std::vector<uint64_t> sizes{1, 7, 64, 4095, 4096, 4097, 65537, 300000, (1 << 20) + 3};
  COLL_ASSIGN(std::vector<Memory> memories, make_all(sizes));
  std::vector<uint8_t> buffer;
  for (size_t i = 0; i < sizes.size(); ++i) {
    buffer.resize(sizes[i]);
    fill_pattern(buffer, {rank(), rank(), i}, 0);
    COLL_TRY(write(memories[i].address, buffer));
  }
  COLL_TRY(barrier());
  for (size_t i = 0; i < sizes.size(); ++i)
    for (int step = 1; step <= size(); ++step) {  // not all at the same rank at the same time
      const int owner = (rank() + step) % size();
      buffer.resize(sizes[i]);
      COLL_TRY(look_at(memories[i], owner, 0, buffer));
      found.compare(buffer, {owner, owner, i}, 0, size(),
                    format("window of {} bytes of rank {}", sizes[i], owner));
    }
  COLL_TRY(barrier());
  std::ranges::reverse(memories);
  return give_back(memories);
}

// Allocated, registered, used and given back again and again: nothing may be left.
Status WindowTest::repeated(WindowFindings& found) {
  const runtime::WindowMemoryUsage memory_before = runtime::window_memory_usage();
  const runtime::WindowUsage before = communicator_.windows().usage();
  COLL_TRY(barrier());
  const int next = (rank() + 1) % size();
  for (int round = 0; round < kRounds; ++round) {
    const auto key = uint64_t(round);
    COLL_ASSIGN(Memory memory, make(4096 + key));
    uint8_t word[64];
    fill_pattern(word, {rank(), rank(), key}, 0);
    COLL_TRY(write(memory.address, word));
    COLL_TRY(barrier());
    COLL_TRY(look_at(memory, next, 0, word));
    found.compare(word, {next, next, key}, 0, size(), format("round {}, rank {}", round, next));
    COLL_TRY(give_back({&memory, 1}));
  }
  COLL_TRY(barrier());
  const runtime::WindowMemoryUsage memory_after = runtime::window_memory_usage();
  const runtime::WindowUsage after = communicator_.windows().usage();
  found.looked();
  if (memory_after.segments != memory_before.segments || memory_after.bytes != memory_before.bytes)
    found.fail(ErrorCode::failed, -1,
               format("after {} rounds {} segments of {} are left, before them {} of {}", kRounds,
                      memory_after.segments, human_bytes(memory_after.bytes),
                      memory_before.segments, human_bytes(memory_before.bytes)));
  if (after.windows != before.windows || after.placements != before.placements)
    found.fail(ErrorCode::failed, -1,
               format("after {} rounds {} windows at {} places are left, before them {} at {}",
                      kRounds, after.windows, after.placements, before.windows, before.placements));
  return barrier();
}

// Several windows at the same time, two of them in one allocation, one registered twice; given back
// out of order, which must not touch the others.
Status WindowTest::concurrent(WindowFindings& found) {
  std::vector<uint64_t> sizes;
  sizes.reserve(size_t(kMostWindows));
  for (int i = 0; i < kMostWindows; ++i) sizes.push_back(8192 + uint64_t(i) * 1000);
  COLL_ASSIGN(std::vector<Memory> memories, make_all(sizes));
  const auto fill = [&](size_t i) -> Status {
    std::vector<uint8_t> buffer(sizes[i]);
    fill_pattern(buffer, {rank(), rank(), i}, 0);
    return write(memories[i].address, buffer);
  };
  const auto look = [&](size_t i, const char* when) -> Status {
    std::vector<uint8_t> buffer(sizes[i]);
    const int owner = (rank() + 1 + int(i)) % size();
    COLL_TRY(look_at(memories[i], owner, 0, buffer));
    found.compare(buffer, {owner, owner, i}, 0, size(),
                  format("window {} of {} of rank {}, {}", i, sizes.size(), owner, when));
    return {};
  };
  for (size_t i = 0; i < memories.size(); ++i) COLL_TRY(fill(i));
  COLL_TRY(barrier());
  for (size_t i = 0; i < memories.size(); ++i) COLL_TRY(look(i, "all together"));
  // The first one once more: the same window, which then takes two deregistrations.
  const runtime::WindowRange again{.address = memories[0].address, .bytes = sizes[0]};
  COLL_ASSIGN(const auto same, communicator_.register_windows({&again, 1}, deadline()));
  found.looked();
  if (same[0] != memories[0].window)
    found.fail(ErrorCode::failed, -1, "the same memory registered again is another window");
  COLL_TRY(communicator_.deregister_windows(same, deadline()));
  std::vector<Memory> odd, even;
  for (size_t i = 0; i < memories.size(); ++i) (i % 2 != 0 ? odd : even).push_back(memories[i]);
  COLL_TRY(barrier());
  COLL_TRY(give_back(odd));
  COLL_TRY(barrier());
  for (size_t i = 0; i < memories.size(); i += 2) COLL_TRY(look(i, "after others were given back"));
  COLL_TRY(barrier());
  return give_back(even);
}

// Windows until the slot of addresses is full: an error then, and room again when they are gone.
Status WindowTest::exhaustion(WindowFindings& found) {
  const uint64_t slot = communicator_.windows().usage().stride_bytes;
  if (slot > kMostToFill) {
    found.not_tested(
        format("a rank has {} of addresses for windows, too much to be filled: "
               "COLLCTL_WINDOW_STRIDE makes it less",
               human_bytes(slot)));
    return {};
  }
  std::vector<Memory> memories;
  std::optional<Error> full;
  while (!full && memories.size() <= slot / kFilling) {
    auto one = make(kFilling);
    if (one) memories.push_back(*one);
    if (!one) full = one.error();
  }
  found.looked();
  if (!full)
    found.fail(ErrorCode::failed, -1,
               format("{} windows of {} went into {} of addresses", memories.size(),
                      human_bytes(kFilling), human_bytes(slot)));
  if (full && grave(*full)) return *full;
  if (full && (full->code != ErrorCode::unavailable || full->message.empty()))
    found.fail(ErrorCode::failed, -1, "no room, but the error says: " + full->chain());
  if (memories.empty()) {
    found.fail(ErrorCode::failed, -1, "there was no room for a single window");
    return {};
  }
  // Windows made before it became full still work.
  uint8_t word[256];
  fill_pattern(word, {rank(), rank(), 0}, 0);
  COLL_TRY(write(memories.back().address, word));
  COLL_TRY(barrier());
  const int next = (rank() + 1) % size();
  COLL_TRY(look_at(memories.back(), next, 0, word));
  found.compare(word, {next, next, 0}, 0, size(), format("the last window of rank {}", next));
  COLL_TRY(barrier());
  COLL_TRY(give_back(memories));
  COLL_ASSIGN(Memory fresh, make(kFilling));
  found.looked();
  return give_back({&fresh, 1});
}

Status WindowTest::expect_usage(const char* what, const Status& got, WindowFindings& found) {
  found.looked();
  if (got) {
    found.fail(ErrorCode::failed, -1, format("{} was accepted", what));
    return {};
  }
  if (got.error().code == ErrorCode::usage && !got.error().message.empty()) return {};
  if (grave(got.error())) return got.error();
  found.fail(ErrorCode::failed, -1,
             format("{}: expected a usage error, got: {}", what, got.error().chain()));
  return {};
}

// Each of these is a mistake of the caller's: it must be refused on every rank, in words, and leave
// the communicator as it was.
Status WindowTest::misuse(WindowFindings& found) {
  const auto registered = [&](void* address, uint64_t bytes) -> Status {
    const runtime::WindowRange range{.address = address, .bytes = bytes};
    auto windows = communicator_.register_windows({&range, 1}, deadline());
    if (!windows) return windows.error();
    return communicator_.deregister_windows(*windows, deadline());
  };
  const auto expect = [&](const char* what, const Status& got) {
    return expect_usage(what, got, found);
  };
  std::vector<uint8_t> ordinary(8192);
  COLL_TRY(expect("a window in ordinary memory", registered(ordinary.data(), 4096)));
  if (communicator_.device() != nullptr) {
    COLL_ASSIGN(const auto plain,
                transport::DeviceMemory::make(communicator_.device(), 8192, false));
    COLL_TRY(expect("a window in ordinary memory of the GPU", registered(plain.data(), 4096)));
    COLL_ASSIGN(void* const host, runtime::allocate_window_memory(4096));
    COLL_TRY(expect("a GPU rank's window in memory of the host", registered(host, 4096)));
    COLL_TRY(runtime::free_window_memory(host));
  }
  COLL_TRY(expect("a window at no address", registered(nullptr, 4096)));
  COLL_ASSIGN(Memory memory, make(3 * 4096));
  auto* const base = static_cast<uint8_t*>(memory.address);
  COLL_TRY(expect("a window of no bytes", registered(base, 0)));
  COLL_TRY(expect("a window beyond its allocation", registered(base, 1 << 24)));
  COLL_TRY(expect("a window that overlaps another", registered(base + 4096, 2 * 4096)));
  if (size() > 1) {
    auto other = runtime::allocate_window_memory(2 * 4096, communicator_.device());
    if (!other) return std::move(other.error());
    COLL_TRY(expect("windows of different sizes", registered(*other, rank() == 0 ? 4096 : 8192)));
    COLL_TRY(runtime::free_window_memory(*other));
  }
  COLL_TRY(expect("freeing memory that is registered", runtime::free_window_memory(base)));
  COLL_TRY(expect("freeing what was not allocated", runtime::free_window_memory(ordinary.data())));
  const auto as_status = [](const auto& result) {
    return result ? Status() : Status(result.error());
  };
  const runtime::UserWindow& window = *memory.window;
  COLL_TRY(expect("looking beyond a window", as_status(window.peer(rank(), 3 * 4096 - 1, 2))));
  COLL_TRY(expect("looking at a rank that is none", as_status(window.peer(size(), 0, 1))));
  for (int peer = 0; peer < size(); ++peer)
    if (!window.reaches(peer))
      COLL_TRY(expect("mapping a rank of another host", as_status(window.peer(peer, 0, 1))));
  uint8_t word[8] = {};
  COLL_TRY(expect(
      "a put beyond a window",
      one_sided_->put({memory.window, (rank() + 1) % size(), 3 * 4096 - 7}, word, 8, deadline())));
  COLL_TRY(expect("a get from a rank that is none",
                  one_sided_->get({memory.window, -1, 0}, word, 8, deadline())));
  COLL_TRY(expect("a signal that is none", one_sided_->signal(rank(), runtime::kSignals)));
  // Another communicator, of this rank alone.
  COLL_ASSIGN(const JobRoot alone, make_root(true, {}));
  runtime::CommOptions options;
  options.device = spec_.device;
  options.share_device = true;
  options.launcher = spec_.launcher;
  COLL_ASSIGN(const auto stranger, runtime::Communicator::init(alone.id, 0, 1, options));
  const std::vector<WindowPointer> ours{memory.window};
  COLL_TRY(expect("deregistering another communicator's window",
                  stranger->deregister_windows(ours, deadline())));
  COLL_ASSIGN(void* const apart, runtime::allocate_window_memory(4096, communicator_.device()));
  const runtime::WindowRange theirs{.address = apart, .bytes = 4096};
  COLL_ASSIGN(const auto foreign, stranger->register_windows({&theirs, 1}, deadline()));
  COLL_TRY(expect("a put into another communicator's window",
                  one_sided_->put({foreign[0], rank(), 0}, word, 8, deadline())));
  COLL_TRY(stranger->deregister_windows(foreign, deadline()));
  COLL_TRY(runtime::free_window_memory(apart));
  COLL_TRY(stranger->finalize(deadline()));
  base::log_set_thread_device(rank());  // this thread's lines are this rank's again
  COLL_TRY(barrier());
  COLL_TRY(one_sided_->withdraw(ours, deadline()));
  COLL_TRY(communicator_.deregister_windows(ours, deadline()));
  COLL_TRY(expect("deregistering twice", communicator_.deregister_windows(ours, deadline())));
  COLL_TRY(expect("looking into a window that is gone", as_status(window.peer(rank(), 0, 1))));
  COLL_TRY(expect("a put into a window that is gone",
                  one_sided_->put({memory.window, rank(), 0}, word, 8, deadline())));
  COLL_TRY(runtime::free_window_memory(base));
  COLL_TRY(expect("freeing twice", runtime::free_window_memory(base)));
  COLL_TRY(expect("a window in memory that was freed", registered(base, 4096)));
  // All of that left the communicator as it was.
  COLL_ASSIGN(Memory fresh, make(4096));
  uint8_t bytes[64];
  fill_pattern(bytes, {rank(), rank(), 0}, 0);
  COLL_TRY(write(fresh.address, bytes));
  COLL_TRY(barrier());
  const int next = (rank() + 1) % size();
  COLL_TRY(look_at(fresh, next, 0, bytes));
  found.compare(bytes, {next, next, 0}, 0, size(),
                format("afterwards, the window of rank {}", next));
  COLL_TRY(barrier());
  return give_back({&fresh, 1});
}

}  // namespace collctl::cmd
