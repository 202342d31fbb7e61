// Output of nccl-tests 2.19, column by column, so that programs that read it read us as well.
#include "base/format.h"
#include "cmd/report/report.h"
#include "cmd/verify/buffer_shape.h"

namespace collctl::cmd {
namespace {

using kernels::Collective;

// Two digits behind the point, fewer when they do not fit, then an exponent.
std::string fitted(double value, size_t width) {
  for (const int behind : {2, 1, 0})
    if (std::string text = format("{:.{}f}", value, behind); text.size() <= width) return text;
  return format("{:.{}e}", value, width >= 7 ? 1 : 0);
}

// A placement that was not measured has all its columns, in digits: readers drop lines without
// them. The header says what its zeros are.
bool repeats_place(const BenchSpec& spec) {
  return spec.in_place == InPlace::both && !has_in_place_form(spec.collective);
}

// For an operation without an in-place form, whose readers look at those columns all the same.
Timing repeated(Timing t) {
  t.wrong = -1;
  return t;
}

std::string timing_there(const Timing& t) {
  return format("  {:>7}  {:>6}  {:>6}  {:>6}", fitted(t.time_us, 7), fitted(t.algbw_GBps, 6),
                fitted(t.busbw_GBps, 6), t.wrong >= 0 ? format("{:g}", double(t.wrong)) : "N/A");
}

std::string titles_there(const char* size, const char* count, const char* type, const char* redop,
                         const char* root, const char* time, const char* rate, const char* wrong) {
  std::string text =
      format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", size, count, type, redop, root);
  for (int i = 0; i < 2; ++i) {
    const bool units = *wrong == 0;
    text += format("  {:>7}  {:>6}  {:>6}  {:>6}", time, units ? rate : "algbw",
                   units ? rate : "busbw", wrong);
  }
  return text + " \n";  // an empty column of theirs
}

struct RankThere {
  int device = 0, pid = 0, group = 0;
  Host host;
  std::string bus, name;
};

std::vector<RankThere> ranks_in_order(const BenchHeader& header) {
  std::vector<RankThere> ranks(size_t(header.ranks));
  for (const HostLine& host : header.hosts)
    for (size_t i = 0; i < host.ranks.size(); ++i) {
      RankThere& rank = ranks.at(size_t(host.ranks[i]));
      rank.host = host.host;
      if (i < host.pids.size()) rank.pid = host.pids[i];
      if (i < host.gpus.size()) {
        rank.device = host.devices[i];
        rank.bus = host.gpus[i].bus_id.substr(0, host.gpus[i].bus_id.rfind('.'));
        rank.name = host.gpus[i].name;
      } else {  // of a rank on cores
        rank.device = int(i);
        rank.bus = "0000:00:00";
        rank.name = "CPU";
      }
    }
  for (size_t group = 0; group < header.groups.size(); ++group)
    for (const int rank : header.groups[group].ranks) ranks.at(size_t(rank)).group = int(group);
  return ranks;
}

// There a row is of all groups: here of the slowest.
bool is_shown(const BenchReport& report, const BenchRow& row) {
  return row.group < 0 || row.slowest_group || (report.header && report.header->groups.size() == 1);
}

}  // namespace

std::string nccl_tests_program(const BenchOp& op) {
  if (is_uneven(op) && op != kAllToAllV) return "";
  switch (op.calls) {
    case Collective::all_reduce:
      return "all_reduce_perf";
    case Collective::all_gather:
      return "all_gather_perf";
    case Collective::reduce_scatter:
      return "reduce_scatter_perf";
    case Collective::all_to_all:
      return "alltoall_perf";
    case Collective::barrier:
      return "";
    default:
      return std::string(name_of(op)) + "_perf";
  }
}

std::string nccl_tests_header(const BenchReport& report) {
  const BenchSpec& spec = report.spec;
  const BenchHeader& header = *report.header;
  const std::vector<RankThere> ranks = ranks_in_order(header);
  int threads = 0;  // of a process
  for (const RankThere& rank : ranks)
    threads += rank.host == ranks[0].host && rank.pid == ranks[0].pid;
  const bool factor = spec.step_bytes == 0;
  // A reader of this output must not take it for NCCL's figures: no NCCL took part.
  std::string text = format(
      "# nccl-tests version 2.19.6 nccl-headers=0 nccl-library=0 (as written by collctl {})\n",
      header.version);
  text += format("# Collective test starting: {}\n", nccl_tests_program(spec.collective));
  text += format(
      "# nThread {} nGpus 1 minBytes {} maxBytes {} step: {}({}) warmup iters: {} iters: {} agg "
      "iters: {} validation: {} graph: {} unalign: {}\n#\n# Using devices\n",
      threads, spec.min_bytes, spec.max_bytes, factor ? spec.step_factor : spec.step_bytes,
      factor ? "factor" : "bytes", spec.warmup, spec.iterations, spec.grouped, spec.check ? 1 : 0,
      spec.cuda_graph, spec.misalign / int(kernels::element_size(spec.types.at(0))));
  for (size_t i = 0; i < ranks.size(); ++i)
    text += format("#  Rank {:2} Group {:2} Pid {:6} on {:>10} device {:2} [{}] {}\n", i,
                   ranks[i].group, ranks[i].pid, ranks[i].host, ranks[i].device, ranks[i].bus,
                   ranks[i].name);
  if (repeats_place(spec))
    text += format("# note: {} has no in-place form here, its in-place columns repeat the others\n",
                   name_of(spec.collective));
  else if (spec.in_place != InPlace::both)
    text += format("# note: nothing was measured {} place, its figures are 0.00\n",
                   spec.in_place == InPlace::in_place ? "out of" : "in");
  if (header.groups.size() > 1)
    text += format("# note: {} groups (--split {}), figures are of the slowest at each size\n",
                   header.groups.size(), header.split);
  text +=
      format("#\n# {:50}           out-of-place                       in-place          \n", "");
  text += titles_there("size", "count", "type", "redop", "root", "time", "", "#wrong");
  return text + titles_there("(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "");
}

std::string nccl_tests_row(const BenchReport& report, const BenchRow& row) {
  if (!is_shown(report, row)) return "";
  return format(
      "{:12}  {:12}  {:>8}  {:>6}  {:6}{}{}\n", row.bytes, row.count,
      kernels::row_of(row.type).nccl_tests_name, row.has_op ? kernels::name_of(row.op) : "none",
      row.root, timing_there(row.out_of_place),
      timing_there(repeats_place(report.spec) ? repeated(row.out_of_place) : row.in_place));
}

std::string nccl_tests_footer(const BenchReport& report, const Verdict& verdict) {
  // No mean and no conclusion of a run that broke off: a reader would take it for a whole one.
  if (verdict.error()) return format("# error: {}\n", verdict.error()->chain());
  int wrong = 0;
  BenchReport shown = report;
  std::erase_if(shown.rows, [&](const BenchRow& row) { return !is_shown(report, row); });
  for (const BenchRow& row : report.rows)
    for (const Timing* t : {&row.out_of_place, &row.in_place}) wrong += t->measured && t->wrong > 0;
  return format(
      "# Out of bounds values : {} {}\n# Avg bus bandwidth    : {:g} \n#\n"
      "# Collective test concluded: {}\n#\n\n",
      wrong, wrong == 0 ? "OK" : "FAILED", average_busbw(shown).busbw_GBps,
      nccl_tests_program(report.spec.collective));
}

}  // namespace collctl::cmd
