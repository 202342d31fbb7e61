// Figures of the installed NCCL beside ours, and whether its data was right.
#include <algorithm>

#include "base/format.h"
#include "cmd/check/nccl.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
namespace {

const NcclChoice* choice_of(const std::vector<NcclChoice>& choices, const NcclRow& row,
                            uint64_t call_bytes) {
  for (const NcclChoice& choice : choices)
    // Versions that name no function count the whole.
    if (choice.bytes == (choice.function.empty() ? row.bytes : call_bytes)) return &choice;
  return nullptr;
}

// Among all that is slow the worst counts, and the largest where several are alike.
struct Slow {
  const NcclRow* worst = nullptr;
  size_t sizes = 0;
  void add(const NcclRow& row, double share) {
    ++sizes;
    if (worst == nullptr || share <= least) worst = &row, least = share;
  }
  double least = 1;
};

std::string sizes_text(const Slow& slow) {
  return slow.sizes > 1 ? format(" ({} sizes are so, this is the worst)", slow.sizes) : "";
}

std::string both_text(double slow, double fast, const NcclRow& row) {
  return row.bytes >= kNcclBandwidthBytes ? format("{} of {} GB/s at {}", four_digits(slow),
                                                   four_digits(fast), human_bytes(row.bytes))
                                          : format("{} us, not {}, at {}", four_digits(slow),
                                                   four_digits(fast), human_bytes(row.bytes));
}

std::string choice_text(const NcclRow& row) {
  if (row.algorithm.empty()) return "";
  return format("; NCCL took {}/{}{}, collctl {}/{}", row.algorithm, row.protocol,
                row.channels > 0 ? format(" on {} channels", row.channels) : "", row.own_algorithm,
                row.own_protocol);
}

constexpr const char* kSlowRemedy =
    "look at what NCCL chose (network, ways, channels, algorithm) beside ours, at its variables "
    "and plugins, and at its log: NCCL_DEBUG=INFO";

}  // namespace

std::vector<NcclRow> nccl_rows(const BenchReport& timed) {
  std::vector<NcclRow> rows;
  for (const BenchRow& row : timed.rows) {
    const Timing& own = row.out_of_place;
    if (own.versus.empty() || own.time_us <= 0 || own.versus[0].time_us <= 0) continue;
    NcclRow& one = rows.emplace_back();
    one.collective = name_of(timed.spec.collective);
    one.bytes = row.bytes;
    one.own_us = own.time_us;
    one.nccl_us = own.versus[0].time_us;
    one.own_GBps = own.busbw_GBps;
    one.nccl_GBps = own.busbw_GBps * own.time_us / one.nccl_us;
    one.own_algorithm = row.algorithm;
    one.own_protocol = row.protocol;
    one.own_channels = row.channels;
  }
  return rows;
}

void add_watched(const BenchReport& watched, std::vector<NcclRow>& rows) {
  std::vector<NcclChoice> choices;
  if (watched.closing && !watched.closing->nccl.empty())
    choices = watched.closing->nccl.front().log.choices;
  const std::string name = name_of(watched.spec.collective);
  for (const BenchRow& seen : watched.rows)
    for (NcclRow& row : rows) {
      if (row.collective != name || row.bytes != seen.bytes) continue;
      if (!seen.out_of_place.versus.empty()) row.wrong = seen.out_of_place.versus[0].wrong;
      const uint64_t call_bytes = seen.count * kernels::element_size(seen.type);
      if (const NcclChoice* choice = choice_of(choices, row, call_bytes)) {
        row.algorithm = choice->algorithm;
        row.protocol = choice->protocol;
        row.channels = choice->channels;
      }
    }
}

bool nccl_differs(std::span<const NcclRow> rows, double below) {
  return std::ranges::any_of(
      rows, [&](const NcclRow& row) { return row.ratio() < below || row.ratio() * below > 1; });
}

std::vector<Finding> nccl_speed_findings(std::span<const NcclRow> rows, double below) {
  if (rows.empty()) return {};
  const NcclRow& last = rows.back();
  Finding all{.name = "nccl/" + last.collective};
  all.measured = four_digits(last.nccl_GBps);
  all.expected = four_digits(below * last.own_GBps);
  all.unit = "GB/s";
  all.basis = format("NCCL's bus bandwidth at {}; {:g} of ours, {} GB/s", human_bytes(last.bytes),
                     below, four_digits(last.own_GBps));
  Slow wide, latency, own;
  for (const NcclRow& row : rows) {
    if (row.ratio() < below)
      (row.bytes >= kNcclBandwidthBytes ? wide : latency).add(row, row.ratio());
    if (row.ratio() * below > 1 && row.bytes >= kNcclBandwidthBytes) own.add(row, 1 / row.ratio());
  }
  std::vector<Finding> findings;
  if (wide.worst != nullptr)
    all.fail(ErrorCode::failed,
             format("{}: NCCL is slow, the wire is fast: {} (by collctl){}{}", last.collective,
                    both_text(wide.worst->nccl_GBps, wide.worst->own_GBps, *wide.worst),
                    sizes_text(wide), choice_text(*wide.worst)),
             kSlowRemedy);
  findings.push_back(std::move(all));
  if (latency.worst != nullptr) {
    findings.push_back(Finding{.name = format("nccl/{}/latency", last.collective)}.warn(format(
        "{}: NCCL is slow at small sizes, the wire is fast: {} (by collctl){}{}", last.collective,
        both_text(latency.worst->nccl_us, latency.worst->own_us, *latency.worst),
        sizes_text(latency), choice_text(*latency.worst))));
  }
  if (own.worst != nullptr) {
    findings.push_back(Finding{.name = format("nccl/{}/ours", last.collective)}.warn(
        format("{}: collctl is slow, the wire is fast: {} (by NCCL){}{}", last.collective,
               both_text(own.worst->own_GBps, own.worst->nccl_GBps, *own.worst), sizes_text(own),
               choice_text(*own.worst)),
        "these hosts can do more than collctl's other figures say: do not drain one for them "
        "alone"));
  }
  return findings;
}

std::vector<Finding> nccl_data_findings(const BenchReport& watched) {
  std::vector<Finding> findings;
  for (const BenchRow& row : watched.rows)
    for (const VersusTiming& other : row.out_of_place.versus) {
      if (other.wrong <= 0) continue;
      std::string where = format("rank {}", other.wrong_rank);
      if (watched.header)
        for (const HostLine& host : watched.header->hosts)
          if (std::ranges::find(host.ranks, other.wrong_rank) != host.ranks.end())
            where += format(" on {}", host.host);
      const std::string name = name_of(watched.spec.collective);
      findings.push_back(Finding{.name = format("nccl/{}/data", name)}.fail(
          ErrorCode::bad_data,
          format("{} at {}: {} elements of NCCL's result are wrong, first on {}; collctl's of "
                 "the same input {} right",
                 name, human_bytes(row.bytes), other.wrong, where,
                 row.out_of_place.wrong == 0 ? "is" : "is not"),
          "collctl check --only node,cluster,gpus says whether memory or links are at fault; "
          "else compare NCCL's version and variables with a host that is right"));
    }
  return findings;
}

}  // namespace collctl::cmd
