// Whether all ranks are there for the same (Bootstrap::Options::task).
#include <algorithm>

#include "base/format.h"
#include "base/split.h"
#include "runtime/bootstrap/join.h"

namespace collctl::runtime {
namespace {

constexpr size_t kMostOfTaskValue = 60;

struct TaskLine {
  std::string name, value;
};

std::vector<TaskLine> task_lines(std::string_view text) {
  std::vector<TaskLine> lines;
  for (const std::string_view line : base::lines_of(text)) {
    const size_t tab = std::min(line.find('\t'), line.size());
    lines.push_back({std::string(line.substr(0, tab)),
                     std::string(line.substr(std::min(tab + 1, line.size())))});
  }
  return lines;
}

// "collective (rails, not allreduce)": the first line in which `other` is not as `first`.
std::string task_difference(std::string_view first, std::string_view other) {
  const auto a = task_lines(first), b = task_lines(other);
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (a[i].name != b[i].name || a[i].value != b[i].value)
      return format("{} ({}, not {})", b[i].name, b[i].value.substr(0, kMostOfTaskValue),
                    a[i].value.substr(0, kMostOfTaskValue));
  return "command";
}

}  // namespace

// Every rank has all hashes; where they differ, all ask for the texts.
Status Bootstrap::State::Joining::same_task() {
  const std::vector<uint64_t> hashes = std::exchange(tasks_, {});
  const auto other =
      std::find_if(hashes.begin(), hashes.end(), [&](uint64_t hash) { return hash != hashes[0]; });
  if (other == hashes.end()) return {};
  const auto odd = int(other - hashes.begin());
  std::string first, differs;
  COLL_TRY(s_.gathering.gather(base::bytes_of(s_.options.task), s_.options.deadline,
                               "bootstrap: exchange of command lines",
                               [&](int of, ByteView text) -> Status {
                                 if (of == 0) first.assign(text.begin(), text.end());
                                 if (of == odd) differs.assign(text.begin(), text.end());
                                 return {};
                               }));
  Error e(ErrorCode::usage,
          format("rank {} was started with another {} than rank 0", odd,
                 task_difference(first, differs)),
          "start all ranks with the same command line");
  e.rank = odd;
  e.host = s_.roster.host(odd);
  return e;
}

}  // namespace collctl::runtime
