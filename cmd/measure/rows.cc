#include "cmd/measure/rows.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/format.h"

namespace collctl::cmd {

using kernels::Collective;
using kernels::DataType;
using kernels::RedOp;

namespace {

std::vector<std::string> or_planned(const std::vector<std::string>& names) {
  return names.empty() ? std::vector<std::string>{""} : names;
}

Status check_rows(const BenchSpec& spec, int ranks, int job_size) {
  if (spec.types.empty() || spec.ops.empty() || spec.roots.empty())
    return Error{ErrorCode::usage, "a bench needs at least one type, operation and root"};
  if (spec.in_place == InPlace::in_place && !has_in_place_form(spec.collective))
    return Error{ErrorCode::usage, format("{} has no in-place form", name_of(spec.collective)),
                 "leave out --in-place, or use --in-place 0"};
  COLL_TRY(check_ranks(spec.collective, ranks));
  for (int root : spec.roots)
    if (has_root(spec.collective) && (root < -1 || root >= job_size))
      return Error{ErrorCode::usage,
                   format("root {} is not a rank; expected 0 to {}", root, job_size - 1)};
  return {};
}

// By the job's numbers; -1 alone: the collective has none.
std::vector<int> roots_of(const BenchSpec& spec, int job_size) {
  if (!has_root(spec.collective)) return {-1};
  if (spec.roots != std::vector<int>{-1}) return spec.roots;
  std::vector<int> roots(size_t(job_size), 0);
  std::iota(roots.begin(), roots.end(), 0);
  return roots;
}

// Its number here; none: it is lost.
std::optional<int> rank_of_root(int root, const Continued* continued) {
  if (continued == nullptr || root < 0) return root;
  const std::vector<int>& members = continued->members;
  const auto at = std::ranges::find(members, root);
  return at == members.end() ? std::nullopt : std::optional(int(at - members.begin()));
}

}  // namespace

Result<MeasuredRows> MeasuredRows::make(const BenchSpec& spec, int ranks,
                                        const Continued* continued, uint64_t plateau) {
  const int job_size = continued != nullptr ? continued->job_size : ranks;
  COLL_TRY(check_rows(spec, ranks, job_size));
  const bool barrier = spec.collective == Collective::barrier;
  MeasuredRows rows;
  rows.ranks_ = ranks;
  rows.done_ = continued != nullptr ? continued->done : 0;
  COLL_ASSIGN(rows.sizes_, size_series(spec));
  if (barrier) rows.sizes_ = {0};
  rows.ends_in_plateau_ = !barrier && plateau > rows.sizes_.back();
  if (rows.ends_in_plateau_) rows.sizes_.push_back(plateau);
  for (const std::string& algorithm : or_planned(spec.algorithms))
    for (const std::string& protocol : or_planned(spec.protocols))
      rows.choices_.push_back({algorithm, protocol});
  const auto types = barrier ? std::vector{DataType::int32} : spec.types;
  const auto ops = has_op(spec.collective) ? spec.ops : std::vector{RedOp::sum};
  for (const DataType type : types)
    for (const RedOp op : ops)
      for (const int root : roots_of(spec, job_size)) {
        if (const auto rank = rank_of_root(root, continued))
          rows.series_.push_back({{spec.collective, type, op, *rank, {}}, rows.total_});
        rows.total_ += rows.choices_.size() * rows.sizes_.size();
      }
  return rows;
}

RowKey MeasuredRows::key(const RowSeries& series, uint64_t asked) const {
  RowKey key = series.key;
  key.size = size_point(key.collective, asked, ranks_, kernels::element_size(key.type));
  return key;
}

std::vector<RowToMeasure> MeasuredRows::left(const RowSeries& series, size_t choice,
                                             const std::vector<uint64_t>& able) const {
  std::vector<RowToMeasure> rows;
  const uint64_t first = series.first + choice * sizes_.size();
  uint64_t place = first + sizes_.size() - able.size();
  for (const uint64_t asked : able) {
    const auto at = std::ranges::find(sizes_, asked);
    const uint64_t number = first + uint64_t(at - sizes_.begin());
    ++place;
    if (number >= done_) rows.push_back({key(series, asked), asked, number, place});
  }
  return rows;
}

}  // namespace collctl::cmd
