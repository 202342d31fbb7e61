#include "topology/search/pattern.h"

#include <algorithm>

#include "base/format.h"
#include "topology/search/speeds.h"

namespace collctl::topology {
namespace {

// Visits: of all attempts for one pattern, of one, and of one that repeats its first channel.
// NCCL's numbers and its counting, since results depend on them: attempts are paid in full,
// and what an attempt with different channels leaves over is given back.
constexpr int64_t kAllBudget = 1 << 19, kAttemptBudget = 1 << 14, kSameBudget = 1 << 8;
// As long as nothing is found the search goes on; from here on with short attempts.
constexpr int64_t kPatience = 1 << 21;
// Lower speeds are tried while they are at least about half of what was found: two channels of half
// the speed are no gain, and slow channels cost more of each GPU.
constexpr double kWorthTrying = 0.49;
constexpr double kFallbackGBps = 0.1;

struct TypeRange {
  PathType best = PathType::dis, worst = PathType::loc;
  void add(PathType type) {
    best = std::min(best, type);
    worst = std::max(worst, type);
  }
};

// From GPUs to `ends`. Trees go both ways, and the way back from the network has no relay (PXN).
TypeRange types_between(const SearchSite& site, const std::vector<int>& ends, Pattern pattern) {
  TypeRange range;
  for (const int gpu : site.gpus())
    for (const int end : ends) {
      if (gpu == end) continue;
      const SearchSite::Step& step = site.step(gpu, end);
      range.add(step.type);
      if (pattern != Pattern::ring) range.worst = std::max(range.worst, step.both_types);
    }
  if (range.best > range.worst) return {PathType::loc, PathType::loc};  // a GPU by itself
  range.best = std::min(range.best, PathType::sys);
  return range;
}

PathType next_type(PathType type) {
  return PathType(int(type) + 1);
}

bool is_amd_cpu(const Graph& graph) {
  const Node& cpu = graph.nodes[size_t(graph.cpus.front())];
  return cpu.arch == "x86_64" && cpu.vendor == "AuthenticAMD";
}

// The attempts for one pattern: first with all rules strict and the highest speed, then one rule
// after another relaxed, then slower; at last faster again with the number of channels found.
class PatternSearch {
 public:
  PatternSearch(const SearchSite& site, ChannelSearch& channels, const SearchRules& wanted,
                int cross_nic)
      : site_(site),
        channels_(channels),
        limits_(speed_limits(site)),
        network_(!site.nets().empty()),
        speeds_(channel_speeds(limits_.sm, network_)),
        inside_(types_between(site, site.gpus(), wanted.pattern)),
        outside_(types_between(site, site.nets(), wanted.pattern)),
        wanted_(wanted),
        rules_(wanted) {
    const bool may_cross = site.nets().size() > 1 && wanted.pattern != Pattern::tree;
    cross_nic_ = may_cross ? cross_nic : 0;
    visits_before_ = channels.visits();
    channels.begin_pattern();
  }

  ChannelGraph run() {
    start();
    do {
      attempt();
    } while (!is_enough() && relax());
    say_speeds();
    duplicate();
    raise();
    return result();
  }

 private:
  void start() {
    const double gpus = double(site_.gpus().size());
    // A chain over n GPUs has n - 1 links where a ring has n, so the GPUs carry that much more.
    total_ =
        limits_.gpu_gbps * (gpus > 1 && wanted_.pattern != Pattern::ring ? gpus / (gpus - 1) : 1);
    speed_ = first_speed(speeds_, limits_.path_gbps, total_, wanted_.min_channels);
    rules_.type_intra = inside_.best;
    rules_.type_inter = network_ ? outside_.best : PathType::pix;
    rules_.same_channels = true;
    rules_.cross_nic = cross_nic_ == 1 ? 1 : 0;
    set_speed();
    say(format(
        "a path {} carries {:.4g} GB/s at best, a GPU {:.4g} GB/s: {:.4g} GB/s per channel is "
        "tried first",
        network_ ? "to the network" : "between GPUs", limits_.path_gbps, limits_.gpu_gbps,
        speeds_[speed_]));
  }

  void set_speed() { rules_.intra = rules_.inter = rate_of(speeds_[speed_]); }

  void attempt() {
    const bool tired = channels_.visits() - visits_before_ >= kPatience;
    const int64_t budget = rules_.same_channels || tired ? kSameBudget : kAttemptBudget;
    budget_ -= budget;
    const Rate before = best_.total_intra();
    last_end_ = channels_.run(rules_, {budget, tired ? budget : kAttemptBudget}, best_);
    if (best_.total_intra() > before) say_found();
  }

  bool is_enough() const {
    if (last_end_ == ChannelSearch::End::complete) return true;
    return !best_.channels.empty() &&
           Rate(best_.channels.size()) * best_.rules.inter >= rate_of(limits_.gpu_gbps);
  }

  // The next attempt of the first pass; false when there is none left. Each rule starts anew when
  // one after it is relaxed.
  bool relax() {
    const bool found = !best_.channels.empty();
    if (relax_same_channels()) return true;
    budget_ += channels_.left();
    if (found && budget_ < 0) {
      say("the search limit is reached");
      return false;
    }
    return relax_pattern() || relax_inside(found) || relax_outside(found) || relax_cross_nic() ||
           relax_speed(found);
  }

  bool relax_same_channels() {
    // Between AMD's NUMA nodes all orders share one slow path.
    const bool useless = is_amd_cpu(site_.graph()) && rules_.type_intra == PathType::sys;
    const bool relaxed = rules_.same_channels && !useless;
    rules_.same_channels = !relaxed;
    return relaxed;
  }

  bool relax_pattern() {
    if (limits_.sm >= 90 && rules_.pattern == Pattern::balanced_tree) {
      rules_.pattern = Pattern::tree;
      return true;
    }
    rules_.pattern = wanted_.pattern;
    return false;
  }

  bool relax_inside(bool found) {
    const PathType worst = network_ ? rules_.type_inter : inside_.worst;
    if (rules_.type_intra < worst && next_type(rules_.type_intra) < PathType::dis &&
        (!found || rules_.type_intra < best_.rules.type_intra)) {
      rules_.type_intra = next_type(rules_.type_intra);
      return true;
    }
    rules_.type_intra = inside_.best;
    return false;
  }

  bool relax_outside(bool found) {
    if (network_ && rules_.type_inter < outside_.worst &&
        next_type(rules_.type_inter) < PathType::dis &&
        (!found || rules_.type_inter < best_.rules.type_inter ||
         rules_.type_inter < PathType::pxn)) {
      rules_.type_inter = next_type(rules_.type_inter);
      return true;
    }
    if (network_) rules_.type_inter = outside_.best;
    return false;
  }

  bool relax_cross_nic() {
    const bool fits = wanted_.pattern == Pattern::ring || wanted_.pattern == Pattern::balanced_tree;
    if (cross_nic_ == 2 && rules_.cross_nic == 0 && fits) {
      rules_.cross_nic = 2;
      return true;
    }
    rules_.cross_nic = cross_nic_ == 1 ? 1 : 0;
    return false;
  }

  bool relax_speed(bool found) {
    if (speed_ + 1 >= speeds_.size()) return false;
    const double next = speeds_[speed_ + 1];
    if (found && next / gbps_of(best_.rules.inter) <= kWorthTrying) return false;
    tried_ += (tried_.empty() ? "" : ", ") + format("{:.4g}", next);
    ++speed_;
    set_speed();
    return true;
  }

  // Fast channels are split in two: a channel is one block of threads, which alone cannot fill it.
  void duplicate() {
    const size_t count = best_.channels.size();
    const double gbps = gbps_of(best_.rules.intra);
    if (count == 0 || gbps < 25) return;
    if (limits_.sm > 80 && gbps < 50 && count > 4) return;
    // NCCL also halves the speed where fewer than twice as many are allowed, and loses some.
    const size_t doubled = 2 * count;
    if (doubled > size_t(wanted_.max_channels)) return;
    for (size_t i = 0; i < count; ++i) best_.channels.push_back(best_.channels[i]);
    best_.rules.intra /= 2;
    best_.rules.inter /= 2;
    say(format("{:.4g} GB/s is much for a channel: {} channels of {:.4g} GB/s instead", gbps,
               doubled, gbps_of(best_.rules.intra)));
  }

  // Second pass: the same number of channels, faster. Trees only inside the node, where they send
  // up and down at once.
  void raise() {
    if (best_.channels.empty()) return;
    rules_ = best_.rules;
    rules_.min_channels = int(best_.channels.size());
    rules_.max_channels = wanted_.max_channels;
    speed_ = first_speed(speeds_, gbps_of(best_.rules.inter), 1e300, 1);
    set_speed();
    last_end_ = ChannelSearch::End::exhausted;
    while (last_end_ != ChannelSearch::End::out_of_budget && speed_ > 0) {
      const bool ring = best_.rules.pattern == Pattern::ring;
      if (!ring && (rules_.intra != best_.rules.intra || rules_.intra >= 2 * rules_.inter)) break;
      rules_.intra = rate_of(speeds_[--speed_]);
      if (ring) rules_.inter = rules_.intra;
      attempt();
    }
  }

  void say(std::string text) { steps_.push_back(std::move(text)); }

  void say_speeds() {
    if (!tried_.empty()) say(format("{} GB/s per channel: nothing better", tried_));
    tried_.clear();
  }

  void say_found() {
    const SearchRules& rules = best_.rules;
    // The speed that found something is named with it.
    const size_t last = tried_.rfind(", ");
    tried_.resize(last == std::string::npos ? 0 : last);
    say_speeds();
    std::string text = format("{:.4g} GB/s per channel", gbps_of(rules.intra));
    if (rules.inter != rules.intra) text += format(" ({:.4g} outside)", gbps_of(rules.inter));
    text += format(", paths up to {}", path_type_name(rules.type_intra));
    if (network_) text += format(" and {} to the network", path_type_name(rules.type_inter));
    if (rules.pattern != wanted_.pattern)
      text += format(", {} instead", pattern_name(rules.pattern));
    if (!rules.same_channels) text += ", channels in different orders";
    if (rules.cross_nic == 2) text += ", pairs of rings that cross network devices";
    say(text + format(": {} channel{}, {:.4g} GB/s together", best_.channels.size(),
                      best_.channels.size() == 1 ? "" : "s", gbps_of(best_.total_intra())));
  }

  ChannelGraph result() {
    ChannelGraph graph;
    graph.pattern = wanted_.pattern;
    graph.collnet = wanted_.collnet;
    if (!best_.channels.empty())
      fill(graph);
    else if (!wanted_.collnet)
      fall_back(graph);
    graph.visits = channels_.visits() - visits_before_;
    graph.steps = std::move(steps_);
    return graph;
  }

  void fill(ChannelGraph& graph) const {
    const SearchRules& rules = best_.rules;
    graph.pattern = rules.pattern;
    graph.bw_intra = gbps_of(rules.intra);
    graph.bw_inter = gbps_of(rules.inter);
    graph.same_channels = rules.same_channels;
    graph.cross_nic = rules.cross_nic;
    graph.channels = best_.channels;
    measure(graph);
  }

  // Types, hops and latency of what is in use.
  void measure(ChannelGraph& graph) const {
    graph.type_intra = PathType::loc;
    graph.type_inter = network_ ? PathType::loc : PathType::pix;
    for (const GraphChannel& channel : graph.channels)
      for (const auto& [from, to] : channel_steps(graph.pattern, channel)) {
        const SearchSite::Step& step = site_.step(from, to);
        const Node &a = site_.graph().nodes[size_t(from)], &b = site_.graph().nodes[size_t(to)];
        const bool inside = a.kind == NodeKind::gpu && b.kind == NodeKind::gpu;
        PathType& type = inside ? graph.type_intra : graph.type_inter;
        type = std::max(type, graph.pattern == Pattern::ring ? step.type : step.both_types);
        graph.hops += step.hops;
        graph.latency_inter_us = std::max({graph.latency_inter_us, a.latency_us, b.latency_us});
      }
  }

  void fall_back(ChannelGraph& graph) {
    say("no channel fits at any speed: one in rank order is assumed");
    GraphChannel channel;
    channel.gpus = site_.graph().gpus;
    std::sort(channel.gpus.begin(), channel.gpus.end(), [&](int a, int b) {
      return site_.graph().nodes[size_t(a)].rank < site_.graph().nodes[size_t(b)].rank;
    });
    if (network_) channel.net_in = channel.net_out = site_.nets().front();
    graph.channels.push_back(std::move(channel));
    graph.bw_intra = graph.bw_inter = kFallbackGBps;
    graph.fallback = true;
    measure(graph);
    graph.type_intra = graph.type_inter = PathType::sys;
  }

  const SearchSite& site_;
  ChannelSearch& channels_;
  const SpeedLimits limits_;
  const bool network_;
  const std::vector<double>& speeds_;
  const TypeRange inside_, outside_;
  const SearchRules wanted_;
  int cross_nic_ = 0;
  SearchRules rules_;  // of the attempt at hand
  ChannelSet best_;
  double total_ = 0;
  size_t speed_ = 0;
  ChannelSearch::End last_end_ = ChannelSearch::End::exhausted;
  int64_t budget_ = kAllBudget, visits_before_ = 0;
  std::vector<std::string> steps_;
  std::string tried_;  // speeds without a result since the last step
};

}  // namespace

ChannelGraph search_pattern(const SearchSite& site, ChannelSearch& channels,
                            const SearchRules& wanted, int cross_nic) {
  return PatternSearch(site, channels, wanted, cross_nic).run();
}

}  // namespace collctl::topology
