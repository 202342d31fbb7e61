// How a measurement is judged: the verdict, and THE table of its reasons, which says what each is
// called in reports and which exit code it leads to. Who writes a report and who reads it back
// derive the code from the same rows. Threads: values.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace collctl::cmd {

enum class ReasonKind : uint8_t {
  wrong_data,
  below_min_busbw,
  above_max_latency,
  failed,
  not_tested,
  not_measured,
  host_left_out,
};
struct ReasonRow {
  ReasonKind kind;
  const char* name;  // in JSON: stable
  ErrorCode code;
};
std::span<const ReasonRow> reason_rows();  // in the order of ReasonKind
const ReasonRow& reason_row(ReasonKind kind);
const ReasonRow* find_reason(std::string_view name);  // null: no reason of ours

struct Reason {
  std::string code;  // ReasonRow::name
  std::string message, host;
  int rank = -1;
};
struct Verdict {
  bool ok = true;
  ErrorCode code = ErrorCode::failed;  // when not ok: the worst of its reasons
  std::vector<Reason> reasons;

  void worsen(ErrorCode why);
  // Listed, and counted by the code of its row.
  void add(ReasonKind kind, std::string message, std::string host = "", int rank = -1);
};

}  // namespace collctl::cmd
