#include "cmd/judge/verdict.h"

#include <algorithm>
#include <iterator>

namespace collctl::cmd {
namespace {

constexpr ReasonRow kReasonRows[] = {
    {ReasonKind::wrong_data, "wrong-data", ErrorCode::bad_data},
    {ReasonKind::below_min_busbw, "below-min-busbw", ErrorCode::failed},
    {ReasonKind::above_max_latency, "above-max-latency", ErrorCode::failed},
    {ReasonKind::failed, "failed", ErrorCode::failed},
    {ReasonKind::not_tested, "not-tested", ErrorCode::incomplete},
    {ReasonKind::not_measured, "not-measured", ErrorCode::incomplete},
    {ReasonKind::host_left_out, "host-left-out", ErrorCode::incomplete},
};

constexpr bool in_order_of_kinds() {
  for (size_t i = 0; i < std::size(kReasonRows); ++i)
    if (size_t(kReasonRows[i].kind) != i) return false;
  return std::size(kReasonRows) == size_t(ReasonKind::host_left_out) + 1;
}
static_assert(in_order_of_kinds());

}  // namespace

std::span<const ReasonRow> reason_rows() {
  return kReasonRows;
}

const ReasonRow& reason_row(ReasonKind kind) {
  return kReasonRows[size_t(kind)];
}

const ReasonRow* find_reason(std::string_view name) {
  const auto* const row = std::find_if(std::begin(kReasonRows), std::end(kReasonRows),
                                       [name](const ReasonRow& r) { return r.name == name; });
  return row == std::end(kReasonRows) ? nullptr : row;
}

void Verdict::worsen(ErrorCode why) {
  if (ok || base::severity(why) > base::severity(code)) code = why;
  ok = false;
}

void Verdict::add(ReasonKind kind, std::string message, std::string host, int rank) {
  const ReasonRow& row = reason_row(kind);
  worsen(row.code);
  reasons.push_back({row.name, std::move(message), std::move(host), rank});
}

}  // namespace collctl::cmd
