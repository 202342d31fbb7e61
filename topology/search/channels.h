// One attempt of the search: with given bandwidths, path types and rules, lays channel after
// channel over a machine, depth first, and keeps the best set that it finds. Used by search.cc; not
// for two threads at once.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "topology/search/links.h"
#include "topology/search/search.h"
#include "topology/search/site.h"

namespace collctl::topology {

// Limits of an attempt.
struct SearchRules {
  Pattern pattern = Pattern::ring;
  bool collnet = false;
  Rate intra = 0, inter = 0;  // of one channel, between GPUs and to the network
  PathType type_intra = PathType::loc, type_inter = PathType::pix;  // the worst allowed
  bool same_channels = true;  // every channel repeats the first one's order of GPUs
  int cross_nic = 0;
  int min_channels = 1, max_channels = 1;
};

// A set of channels with the rules under which it was found.
struct ChannelSet {
  SearchRules rules;
  std::vector<GraphChannel> channels;
  int hops = 0;
  Rate total_intra() const { return Rate(channels.size()) * rules.intra; }
};

class ChannelSearch {
 public:
  // How an attempt ended: everything was tried, its visits were spent, or a set with the most
  // channels allowed was found.
  enum class End : uint8_t { exhausted, out_of_budget, complete };
  // `site` must outlive it.
  explicit ChannelSearch(const SearchSite& site);
  // Visits allowed: arrivals at a GPU or at the end of a channel. Probes of the PCI order have
  // their own.
  struct Budget {
    int64_t visits, probes;
  };
  // Replaces `best` when something better is found.
  End run(const SearchRules& rules, const Budget& budget, ChannelSet& best);
  int64_t visits() const { return visits_; }  // of all runs
  // Visits spent on another pattern do not count.
  void begin_pattern() { looks_ = 0; }
  int64_t left() const { return std::max<int64_t>(0, budget_); }  // of the last run's budget

 private:
  // Where the next GPU of a channel comes from: PCI order, the channel before, or all, best first.
  enum class Order : uint8_t { pci, replay, free };
  // Remaining work for a channel that stands at a GPU.
  struct Stand {
    int step = 0;        // GPUs before this one
    int to_net_at = -1;  // the step at which it goes to the network; -1: not any more
    bool close = false;  // a ring inside the node: from the last GPU back to the first
    Order order = Order::free;
  };
  void next_channel();
  void start_inside();
  void start_behind(int net);
  Stand start_stand(Order order) const;
  void probe_pci_order(int net);
  void enter(int from, int gpu, const Stand& stand);
  void visit(int gpu, const Stand& stand);
  void to_network(int gpu, const Stand& stand);
  void to_next_gpu(int gpu, const Stand& stand);
  void close_ring(int gpu, const Stand& stand);
  void finish_channel();
  bool may_enter_by(int net) const;
  bool may_leave_by(int net, const Stand& stand) const;
  void use_port(int net, Rate rate);
  std::vector<int> next_gpus(int gpu, const Stand& stand) const;
  std::vector<int> free_order(int gpu, const Stand& stand) const;
  std::vector<int> free_neighbours(int gpu) const;
  bool is_free(int gpu) const { return !used_[count_][size_t(site_.index_of(gpu))]; }
  bool take(int from, int to, Rate rate, PathType worst);
  void give(int from, int to, Rate rate);
  bool is_better() const;
  GraphChannel& current() { return channels_[count_]; }
  const GraphChannel& current() const { return channels_[count_]; }
  const GraphChannel& previous() const { return channels_[count_ - 1]; }

  const SearchSite& site_;
  LinkLoads loads_;
  std::vector<Rate> port_left_;  // of network devices, by node
  SearchRules rules_;
  std::vector<GraphChannel> channels_;  // `count_` complete ones, and the one being built
  size_t count_ = 0;
  std::vector<std::vector<bool>> used_;  // GPUs by channel and index
  int hops_ = 0;
  ChannelSet* best_ = nullptr;
  int64_t budget_ = 0, probe_budget_ = 0, visits_ = 0, looks_ = 0;
  bool done_ = false;
};

}  // namespace collctl::topology
