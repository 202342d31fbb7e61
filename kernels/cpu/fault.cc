#include "kernels/cpu/fault.h"

#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <string_view>

#include "base/format.h"
#include "base/wait.h"

namespace collctl::kernels {
namespace {

constexpr int64_t kStallNapNs = 5'000'000;
// A stalled rank waits for the others to abort; this bounds the wait when none does.
constexpr int64_t kStallTimeouts = 10;

const struct {
  FaultKind kind;
  const char* name;
} kKinds[] = {{FaultKind::missing, "missing"},
              {FaultKind::doubled, "doubled"},
              {FaultKind::corrupt, "corrupt"},
              {FaultKind::stall, "stall"},
              {FaultKind::exit, "exit"}};

Error malformed(const std::string& text) {
  return Error(ErrorCode::usage,
               format("fault \"{}\": expected missing|doubled|corrupt|stall|exit, then :rank=N and "
                      "optionally :channel=N and :step=N",
                      text));
}

template <class T>
bool parse_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0;
}

void stall(CpuWork& work) {
  const int64_t end = base::now_ns() + kStallTimeouts * work.context.op_timeout_ns;
  while (!work.failed() && !work.aborted() && base::now_ns() < end)
    base::sleep_until(base::Deadline::after_ns(kStallNapNs));
  work.fail(work.report(work.aborted() ? ReportCode::aborted : ReportCode::timeout));
}

}  // namespace

Result<Fault> parse_fault(const std::string& text) {
  Fault fault;
  if (text.empty()) return fault;
  std::string_view rest = text;
  const auto next = [&rest] {
    const size_t colon = rest.find(':');
    const std::string_view word = rest.substr(0, colon);
    rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
    return word;
  };
  const std::string_view kind = next();
  for (const auto& known : kKinds)
    if (kind == known.name) fault.kind = known.kind;
  if (fault.kind == FaultKind::none) return malformed(text);
  while (!rest.empty()) {
    const std::string_view word = next();
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos) return malformed(text);
    const std::string_view name = word.substr(0, equals), value = word.substr(equals + 1);
    const bool good = name == "rank"      ? parse_number(value, fault.rank)
                      : name == "channel" ? parse_number(value, fault.channel)
                      : name == "step"    ? parse_number(value, fault.step)
                                          : false;
    if (!good) return malformed(text);
  }
  if (fault.rank < 0) return malformed(text);
  return fault;
}

FaultKind apply_fault(CpuWork& work) {
  const Fault& fault = work.context.fault;
  if (work.receiving_slices.fetch_add(1, std::memory_order_relaxed) != fault.step)
    return FaultKind::none;
  if (fault.kind == FaultKind::exit) ::kill(::getpid(), SIGKILL);
  if (fault.kind == FaultKind::stall) stall(work);
  return fault.kind;
}

void reduce_with_fault(CpuWork& work, FaultKind fault, const void* const* sources,
                       void* const* destinations, int destination_count, uint64_t n,
                       uint32_t divisor) {
  const int nranks = work.work.nranks, victim = (work.work.rank + 1) % nranks;
  const void* list[kMaxWindowRanks + 1];
  int count = 0;
  for (int r = 0; r < nranks; ++r) {
    if (r != victim || fault != FaultKind::missing) list[count++] = sources[r];
  }
  if (fault == FaultKind::doubled) list[count++] = sources[victim];
  if (count == 1 && divisor <= 1)
    copy_to_all(list[0], destinations, destination_count, n * work.element_bytes);
  else
    work.reduce(list, count, destinations, destination_count, n, divisor);
  if (fault == FaultKind::corrupt)
    for (int i = 0; i < destination_count; ++i) flip_a_bit(destinations[i]);
}

void copy_with_fault(CpuWork& work, FaultKind fault, const void* from, void* to, uint64_t n) {
  const uint64_t bytes = n * work.element_bytes;
  if (fault == FaultKind::missing) {
    std::memset(to, 0, bytes);
  } else if (fault == FaultKind::doubled) {
    const void* twice[2] = {from, from};
    work.reduce(twice, 2, &to, 1, n, 1);
  } else {
    std::memcpy(to, from, bytes);
  }
  if (fault == FaultKind::corrupt) flip_a_bit(to);
}

void flip_a_bit(void* data) {
  *static_cast<uint8_t*>(data) ^= 1;
}

}  // namespace collctl::kernels
