// The table that people know: one row per size, timings out of place and in place, then what ran.
#include <algorithm>
#include <map>
#include <set>

#include "base/format.h"
#include "cmd/judge/stragglers.h"
#include "cmd/report/report.h"
#include "cmd/text/hosts.h"
#include "cmd/text/sizes.h"
#include "cmd/text/table.h"
#include "cmd/verify/buffer_shape.h"

namespace collctl::cmd {
namespace {

constexpr size_t kMostHostLines = 8;  // of more, hosts that are alike are one line, without -v
constexpr int kMostLinkReasons = 3;   // why links are as they are, without -v

int digits(uint64_t number) {
  return int(std::to_string(number).size());
}

std::string padded(const std::string& text, int width, bool left) {
  const int missing = width - int(text.size());
  if (missing <= 0) return text;
  return left ? text + std::string(size_t(missing), ' ') : std::string(size_t(missing), ' ') + text;
}

std::string centred(const std::string& text, int width) {
  const int before = (width - int(text.size())) / 2;
  return padded(std::string(size_t(std::max(0, before)), ' ') + text, width, true);
}

int widest_type(const BenchSpec& spec) {
  size_t width = 4;
  for (const auto type : spec.types) width = std::max(width, std::string(name_of(type)).size());
  return int(width);
}

}  // namespace

TextTable::TextTable(const BenchSpec& spec, int ranks, int width)
    : sync_each_(spec.sync_each),
      versus_(!spec.versus.empty()),
      rival_(kRivalNames[int(spec.rival)]),
      out_of_place_(spec.in_place != InPlace::in_place),
      in_place_(spec.in_place != InPlace::out_of_place && has_in_place_form(spec.collective)),
      window_(spec.window),
      expects_(spec.expects && !spec.sync_each && ranks > 1 && has_expectation(spec.collective)),
      split_(spec.split) {
  const int size = std::max(5, digits(spec.max_bytes));
  columns_ = {{"size", "(B)", size + 2},  // and room for the # of the title lines
              {"count", "(elems)", std::max(7, digits(spec.max_bytes))},
              {"type", "", widest_type(spec)},
              {"redop", "", 5},
              {"root", "", std::max(4, digits(uint64_t(std::max(0, ranks - 1))))}};
  if (split_) columns_.insert(columns_.begin() + 1, {"group", "", 5});
  if (out_of_place_) {
    out_of_place_at_ = columns_.size();
    add_timing_columns();
  }
  if (in_place_) {
    in_place_at_ = columns_.size();
    add_timing_columns();
  }
  if (expects_) columns_.push_back({"of exp.", "(%)", 7, false, true, true});
  columns_.push_back({"algo", "", 10, true, true, true});
  columns_.push_back({"proto", "", 6, true});
  columns_.push_back({"channels", "", 8});
  if (window_) columns_.push_back({"path", "", 8, true});

  const bool reduces = has_op(spec.collective), rooted = has_root(spec.collective);
  if (spec.types.size() == 1) leave_out_beyond(width, "type", name_of(spec.types[0]));
  if (!reduces || spec.ops.size() == 1)
    leave_out_beyond(width, "redop", reduces ? name_of(spec.ops[0]) : "none");
  if (!rooted || (spec.roots.size() == 1 && spec.roots[0] >= 0))
    leave_out_beyond(width, "root", format("{}", rooted ? spec.roots[0] : -1));
  for (const char* title : {"algbw", "channels", "min", "max", "count", "proto", "algo", "path",
                            "of exp.", "p50", "p99"})
    leave_out_beyond(width, title, "");
  if (line_width() <= width || !out_of_place_ || !in_place_) return;
  for (size_t i = 0; i < timing_columns_; ++i) columns_[in_place_at_ + i].shown = false;
  left_out_ += (left_out_.empty() ? "" : ", ") + std::string("in place");
}

void TextTable::add_timing_columns() {
  const size_t begin = columns_.size();
  columns_.push_back({"time", "(us)", 8, false, true, true});
  if (sync_each_)
    for (const char* title : {"min", "p50", "p99", "max"}) columns_.push_back({title, "(us)", 8});
  columns_.push_back({"algbw", "(GB/s)", 6});
  columns_.push_back({"busbw", "(GB/s)", 6});
  columns_.push_back({"#wrong", "", 6});
  if (versus_) {
    columns_.push_back({rival_, "(us)", 8});
    columns_.push_back({"ratio", "", 5});
  }
  timing_columns_ = columns_.size() - begin;
}

// `value`: what it holds in every row, else empty.
void TextTable::leave_out_beyond(int width, const std::string& title, const std::string& value) {
  if (line_width() <= width) return;
  bool there = false, begins_group = false;
  for (Column& column : columns_) {
    if (column.title == title) {
      there = true;
      column.shown = false;
      begins_group = column.begins_group;
    } else if (column.shown && begins_group) {
      column.begins_group = true;
      begins_group = false;
    }
  }
  if (!there) return;
  left_out_ += (left_out_.empty() ? "" : ", ") + title + (value.empty() ? "" : " " + value);
}

int TextTable::line_width() const {
  size_t width = 0;
  for (size_t i = 0; i < columns_.size(); ++i) width += cell(i, "").size();
  return int(width);
}

// Two spaces between columns, three before each group of them.
std::string TextTable::cell(size_t at, const std::string& text) const {
  const Column& column = columns_[at];
  if (!column.shown) return "";
  const char* gap = at == 0 ? "" : column.begins_group ? "   " : "  ";
  return gap + padded(text, column.width, column.left);
}

std::string TextTable::titles() const {
  std::string placement, title, unit;
  for (size_t i = 0; i < columns_.size(); ++i) {
    title += cell(i, columns_[i].title);
    unit += cell(i, columns_[i].unit);
  }
  const auto width_before = [&](size_t end) {
    size_t width = 0;
    for (size_t i = 0; i < end; ++i) width += cell(i, "").size();
    return width;
  };
  const auto group = [&](size_t from, const char* name) {
    const size_t start = width_before(from) + 3, end = width_before(from + timing_columns_);
    placement = padded(placement, int(start), true) + centred(name, int(end - start));
  };
  if (out_of_place_) group(out_of_place_at_, "out of place");
  if (in_place_ && columns_[in_place_at_].shown) group(in_place_at_, "in place");
  std::string text;
  for (std::string* line : {&placement, &title, &unit}) {
    (*line)[0] = '#';
    text += trimmed(*line);
  }
  return text;
}

std::string TextTable::timing(size_t& column, const Timing& t) const {
  std::string text;
  const auto put = [&](const std::string& value) { text += cell(column++, value); };
  if (!t.measured) {
    for (size_t i = 0; i < timing_columns_; ++i) put("-");
    return text;
  }
  put(four_digits(t.time_us));
  if (sync_each_)
    for (const double value : {t.min_us, t.p50_us, t.p99_us, t.max_us}) put(four_digits(value));
  put(four_digits(t.algbw_GBps));
  put(four_digits(t.busbw_GBps));
  put(t.wrong < 0 ? "N/A" : format("{}", t.wrong));
  if (versus_) {
    put(t.versus.empty() ? "-" : four_digits(t.versus[0].time_us));
    put(t.versus.empty() ? "-" : format("{:.2f}", t.ratio()));
  }
  return text;
}

std::string TextTable::row(const BenchRow& row) const {
  size_t column = 0;
  std::string text;
  const auto put = [&](const std::string& value) { text += cell(column++, value); };
  put(format("{}", row.bytes));
  if (split_) put(format("{}", row.group));
  put(format("{}", row.count));
  put(name_of(row.type));
  put(row.has_op ? name_of(row.op) : "none");
  put(format("{}", row.root));
  if (out_of_place_) text += timing(column, row.out_of_place);
  if (in_place_) text += timing(column, row.in_place);
  if (expects_)
    put(row.standard() ? format("{:.0f}", 100 * row.standard()->efficiency(row.first_timing()))
                       : "-");
  put(row.algorithm.empty() ? "-" : row.algorithm);
  put(row.protocol.empty() ? "-" : row.protocol);
  put(row.channels == 0 ? "-" : format("{}", row.channels));
  if (window_) put(row.path());
  if (row.out_of_place.unsteady || row.in_place.unsteady) text += "  unsteady";
  if (row.slowest_group) text += "  slowest";
  return trimmed(text);
}

namespace {

// "GPU 0-3 NVIDIA H200", of GPUs that are all of one model; else each with its name.
std::string gpu_text(const HostLine& host) {
  std::string text;
  for (size_t i = 0; i < host.gpus.size();) {
    std::vector<int> equal;
    const std::string& name = host.gpus[i].name;
    for (; i < host.gpus.size() && host.gpus[i].name == name; ++i) equal.push_back(host.devices[i]);
    text += format(", GPU {} {}", rank_ranges(equal), name);
  }
  return text;
}

// With -v: a line for each GPU.
std::string gpu_lines(const HostLine& host) {
  std::string text;
  for (size_t i = 0; i < host.gpus.size(); ++i)
    text += format("#   rank {}: GPU {} ({}), {} held by the communicator\n", host.ranks[i],
                   host.devices[i], host.gpus[i].bus_id, human_bytes(host.gpus[i].held_bytes));
  return text;
}

// "# windows: 8.1 MiB of each rank's buffers, teams of ranks 0-3, 4-7".
std::string window_lines(const WindowsLine& windows, bool verbose) {
  constexpr size_t kMostTeams = 8;  // shown without -v
  const size_t all = windows.teams.size(), shown = verbose ? all : std::min(all, kMostTeams);
  std::string text = format("# windows: {} of each rank's buffers, team{} of ranks",
                            human_bytes(windows.bytes), all == 1 ? "" : "s");
  for (size_t i = 0; i < shown; ++i)
    text += format("{} {}", i == 0 ? "" : ",", rank_ranges(windows.teams[i]));
  if (shown < all) text += format(" and {} more", all - shown);
  text += "\n";
  if (!windows.note.empty())
    text += format("#   collectives take the staged path: {}\n", windows.note);
  return text;
}

// "# groups: 2, of ranks 0-3 and 4-7", by number.
std::string group_lines(const BenchHeader& header, bool verbose) {
  constexpr size_t kMostGroups = 16;  // shown without -v
  const size_t all = header.groups.size(), shown = verbose ? all : std::min(all, kMostGroups);
  if (all == 0) return "";
  std::string text = format("# groups of --split {}: {} at the same time\n", header.split, all);
  for (size_t i = 0; i < shown; ++i) {
    text += format("#   {}", group_name(int(i), header.groups[i].ranks));
    if (header.hosts.size() > 1) text += ": " + folded_hosts(header.groups[i].hosts);
    text += "\n";
  }
  if (shown < all) text += format("#   and {} more\n", all - shown);
  return text;
}

// Which channels go by which device of either end.
std::string device_lines(const BenchHeader& header) {
  std::map<std::string, std::pair<std::set<int>, int>> ways;
  for (const LinkLine& link : header.links) {
    if (link.from_nic.empty() && link.to_nic.empty()) continue;
    const auto name = [](const std::string& nic) {
      return nic.empty() ? std::string("unknown") : nic;
    };
    auto& [channels, links] = ways[format("{} to {}", name(link.from_nic), name(link.to_nic))];
    channels.insert(link.channel);
    ++links;
  }
  std::string text;
  for (const auto& [way, used] : ways)
    text += format("#   {}: channel{} {}, {} link{}\n", way, used.first.size() == 1 ? "" : "s",
                   rank_ranges({used.first.begin(), used.first.end()}), used.second,
                   used.second == 1 ? "" : "s");
  return text;
}

}  // namespace

std::string cores_line(const BenchHeader& header) {
  if (header.device != "cpu" || header.device_reason.empty()) return "";
  return format("# on CPU cores: {}\n", header.device_reason);
}

std::string loss_lines(const LossLine& loss) {
  return format("# lost: {}; {} ranks go on\n", loss.lost.why, loss.ranks_left);
}

std::string text_header(const BenchHeader& header, bool verbose) {
  const bool several = header.hosts.size() != 1;
  std::string text =
      format("# collctl {}: {}, {} {} {}", header.version,
             header.soak ? "soak" : name_of(header.collective), header.ranks,
             header.device == "cpu" ? "CPU" : "GPU", header.ranks == 1 ? "rank" : "ranks");
  if (several) text += format(" on {} hosts", header.hosts.size());
  if (several && header.launch_seconds > 0)
    text += format(", hosts up in {:.1f} s", header.launch_seconds);
  if (header.init_seconds > 0) text += format(", ready in {:.3f} s", header.init_seconds);
  text += "\n";
  // Where there are many hosts, those that are alike are one line, with all of their ranks.
  std::map<std::string, std::pair<std::vector<std::string>, std::vector<int>>> alike;
  for (const HostLine& host : header.hosts) {
    if (!verbose && header.hosts.size() > kMostHostLines && host.own_name.empty()) {
      auto& [names, ranks] = alike[format("{} {}{}{}", host.ranks.size(),
                                          host.ranks.size() == 1 ? "rank each" : "ranks each",
                                          gpu_text(host), host.bound ? ", bound" : "")];
      names.push_back(host.host.name);
      ranks.insert(ranks.end(), host.ranks.begin(), host.ranks.end());
      continue;
    }
    const std::string own = host.own_name.empty() ? "" : format(" ({})", host.own_name);
    text += format("# host {}{}: {} {}", host.host, own, host.ranks.size() == 1 ? "rank" : "ranks",
                   rank_ranges(host.ranks));
    text += gpu_text(host);
    if (host.bound) text += ", bound";
    if (verbose && !host.pids.empty()) text += format(", processes {}", rank_ranges(host.pids));
    text += "\n";
    if (verbose && !host.machine.empty()) text += format("#   {}\n", host.machine);
    if (verbose) text += gpu_lines(host);
  }
  for (const auto& [what, hosts] : alike)
    text += format("# hosts {}: {} (ranks {})\n", folded_hosts(hosts.first), what,
                   rank_ranges(hosts.second));
  text += cores_line(header);
  text += group_lines(header, verbose);
  std::map<std::string, int> links, reasons;
  for (const LinkLine& link : header.links) {
    ++links[link.via];
    if (!link.why.empty()) ++reasons[link.via + ": " + link.why];
  }
  std::string via;
  for (const auto& [name, count] : links)
    via += format("{}{} via {}", via.empty() ? "" : ", ", count, name);
  if (!via.empty()) text += format("# links: {}\n", via);
  if (verbose) text += device_lines(header);
  // Links that are made alike say the same.
  int shown = 0;
  for (const auto& [reason, count] : reasons)
    if (verbose || shown++ < kMostLinkReasons) text += format("#   {} of {}\n", count, reason);
  if (header.tuner)
    text += format("# tuner plugin: {}, version {} of {}\n", header.tuner->name,
                   header.tuner->version, header.tuner->library);
  if (header.windows) text += window_lines(*header.windows, verbose);
  if (header.cuda_graph != 0)
    text += format("# times: of CUDA graphs with {} operation{}, an operation's share\n",
                   header.cuda_graph, header.cuda_graph == 1 ? "" : "s");
  if (header.grouped != 1)
    text += format("# times: of groups of {} operations, an operation's share\n", header.grouped);
  if (header.time_of != TimeOf::slowest)
    text += format("# times: of {}\n", kTimeOfNames[size_t(header.time_of)]);
  if (!header.versus.empty()) text += format("# beside {}\n", header.versus);
  if (!header.note.empty()) text += format("# note: {}\n", header.note);
  return text + "#\n";
}

}  // namespace collctl::cmd
