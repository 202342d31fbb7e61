#include "topology/search/channels.h"

#include <algorithm>
#include <utility>

namespace collctl::topology {
namespace {

constexpr int64_t kProbeBudget = 1 << 10;
// Devices looked at for one pattern: hundreds of devices make each visit dear, and those that do
// not fit are no visits. Real machines stay far below.
constexpr int64_t kMaxLooks = 1 << 28;

}  // namespace

ChannelSearch::ChannelSearch(const SearchSite& site)
    : site_(site), loads_(site.graph(), site.paths()), port_left_(site.graph().nodes.size()) {
  for (const int net : site.nets())
    port_left_[size_t(net)] = rate_of(site.graph().nodes[size_t(net)].net_gbps);
}

ChannelSearch::End ChannelSearch::run(const SearchRules& rules, const Budget& budget,
                                      ChannelSet& best) {
  rules_ = rules;
  best_ = &best;
  budget_ = budget.visits;
  probe_budget_ = budget.probes;
  done_ = false;
  count_ = 0;
  hops_ = 0;
  const size_t most = size_t(rules.max_channels);
  GraphChannel empty;
  empty.gpus.resize(site_.gpus().size());
  channels_.assign(most, empty);
  used_.assign(most, std::vector<bool>(site_.gpus().size()));
  next_channel();
  return done_                                 ? End::complete
         : budget_ <= 0 || looks_ >= kMaxLooks ? End::out_of_budget
                                               : End::exhausted;
}

ChannelSearch::Stand ChannelSearch::start_stand(Order order) const {
  Stand stand;
  stand.order = order;
  const int last = int(site_.gpus().size()) - 1;
  const bool ring = rules_.pattern == Pattern::ring;
  if (site_.nets().empty())
    stand.close = ring;
  else
    stand.to_net_at = ring ? last : rules_.pattern == Pattern::split_tree ? std::min(1, last) : 0;
  return stand;
}

void ChannelSearch::next_channel() {
  if (site_.nets().empty()) return start_inside();
  const std::vector<int>& nets = site_.nets_to_try(-1, rules_.type_inter);
  // Each channel begins its round at another device, so that they are used in turn.
  for (size_t i = 0; i < nets.size() && looks_ < kMaxLooks; ++i) {
    ++looks_;
    const int net = nets[(count_ + i) % nets.size()];
    if (!may_enter_by(net)) continue;
    current().net_in = net;
    use_port(net, rules_.inter);
    start_behind(net);
    use_port(net, -rules_.inter);
  }
}

void ChannelSearch::start_inside() {
  if (count_ == 0)
    enter(-1, site_.gpus().front(), start_stand(Order::pci));
  else
    enter(-1, previous().gpus.front(), start_stand(Order::replay));
  if (count_ > 0 && rules_.same_channels) return;
  for (const int gpu : site_.gpus()) enter(-1, gpu, start_stand(Order::free));
}

void ChannelSearch::start_behind(int net) {
  if (count_ > 0 && rules_.same_channels)
    return enter(net, previous().gpus.front(), start_stand(Order::replay));
  // Behind NVSwitches all orders are alike, so none is worth a probe.
  if (count_ == 0 && !site_.has_nvswitch()) probe_pci_order(net);
  for (const int gpu : site_.gpus_near(net)) enter(net, gpu, start_stand(Order::free));
}

// Sets a mark for what follows.
void ChannelSearch::probe_pci_order(int net) {
  const int64_t allowed = std::min(kProbeBudget, probe_budget_), kept = budget_;
  budget_ = allowed;
  enter(net, site_.gpus().front(), start_stand(Order::pci));
  probe_budget_ -= allowed - std::max<int64_t>(0, budget_);
  budget_ = kept;
}

// `from`: a network device, a GPU, or -1 at the start inside a node.
void ChannelSearch::enter(int from, int gpu, const Stand& stand) {
  const bool inside = from < 0 || site_.index_of(from) >= 0;
  const Rate rate = inside ? rules_.intra : rules_.inter;
  const PathType worst = inside ? rules_.type_intra : rules_.type_inter;
  if (from >= 0 && !take(from, gpu, rate, worst)) return;
  auto used = used_[count_].begin() + site_.index_of(gpu);
  *used = true;
  visit(gpu, stand);
  *used = false;
  if (from >= 0) give(from, gpu, rate);
}

void ChannelSearch::visit(int gpu, const Stand& stand) {
  if (done_ || budget_ <= 0 || looks_ >= kMaxLooks) return;
  --budget_;
  ++visits_;
  const int last = int(site_.gpus().size()) - 1;
  if (stand.step > last) return finish_channel();
  current().gpus[size_t(stand.step)] = gpu;
  if (stand.step == stand.to_net_at) return to_network(gpu, stand);
  if (stand.step < last) return to_next_gpu(gpu, stand);
  if (stand.close) return close_ring(gpu, stand);
  Stand end = stand;
  end.step = last + 1;
  visit(gpu, end);
}

void ChannelSearch::to_network(int gpu, const Stand& stand) {
  const bool balanced = rules_.pattern == Pattern::balanced_tree;
  // Its first two GPUs carry half of the network's traffic each.
  const Rate rate = balanced ? rules_.inter / 2 : rules_.inter;
  Stand onward = stand;
  onward.to_net_at = balanced && stand.step == 0 && site_.gpus().size() > 1 ? 1 : -1;
  const std::vector<int>& nets = site_.nets_to_try(gpu, rules_.type_inter);
  looks_ += int64_t(nets.size());
  for (const int net : nets) {
    if (!may_leave_by(net, stand) || !take(gpu, net, rate, rules_.type_inter)) continue;
    current().net_out = net;
    visit(gpu, onward);
    give(gpu, net, rate);
  }
}

void ChannelSearch::to_next_gpu(int gpu, const Stand& stand) {
  Stand onward = stand;
  ++onward.step;
  for (const int next : next_gpus(gpu, stand)) enter(gpu, next, onward);
}

void ChannelSearch::close_ring(int gpu, const Stand& stand) {
  const int first = current().gpus.front();
  if (!take(gpu, first, rules_.intra, rules_.type_intra)) return;
  Stand end = stand;
  ++end.step;
  visit(first, end);
  give(gpu, first, rules_.intra);
}

void ChannelSearch::finish_channel() {
  ++count_;
  const bool full = count_ == channels_.size();
  if (is_better()) {
    best_->rules = rules_;
    best_->channels.assign(channels_.begin(), channels_.begin() + std::ptrdiff_t(count_));
    best_->hops = hops_;
    done_ = full;
  }
  if (!full) next_channel();
  --count_;
}

bool ChannelSearch::is_better() const {
  if (count_ < size_t(rules_.min_channels)) return false;
  const Rate total = Rate(count_) * rules_.intra;
  if (total != best_->total_intra()) return total > best_->total_intra();
  return rules_.pattern == best_->rules.pattern && rules_.cross_nic == best_->rules.cross_nic &&
         hops_ < best_->hops;
}

bool ChannelSearch::may_enter_by(int net) const {
  if (rules_.collnet && !site_.graph().nodes[size_t(net)].coll) return false;
  if (port_left_[size_t(net)] < rules_.inter) return false;
  // Rings that cross come in pairs: the second of a pair goes the other way between the same two.
  const bool second = rules_.pattern == Pattern::ring && rules_.cross_nic == 2 && count_ % 2 == 1;
  return !second || net == previous().net_out;
}

bool ChannelSearch::may_leave_by(int net, const Stand& stand) const {
  if (rules_.pattern == Pattern::tree && net != current().net_in) return false;
  if (rules_.pattern == Pattern::balanced_tree && stand.step > 0 && net != current().net_out)
    return false;
  if (rules_.pattern == Pattern::ring && rules_.cross_nic == 2)
    return count_ % 2 == 0 || net == previous().net_in;
  return rules_.cross_nic != 0 || site_.is_same_port(net, current().net_in);
}

void ChannelSearch::use_port(int net, Rate rate) {
  looks_ += int64_t(site_.nets().size());
  for (const int other : site_.nets())
    if (site_.is_same_port(net, other)) port_left_[size_t(other)] -= rate;
}

std::vector<int> ChannelSearch::next_gpus(int gpu, const Stand& stand) const {
  if (stand.order == Order::pci) return {site_.gpus()[size_t(stand.step) + 1]};
  if (stand.order == Order::replay) return {previous().gpus[size_t(stand.step) + 1]};
  return site_.has_nvswitch() ? free_neighbours(gpu) : free_order(gpu, stand);
}

std::vector<int> ChannelSearch::free_order(int gpu, const Stand& stand) const {
  const int net = stand.to_net_at >= 0 ? current().net_in : -1;
  std::vector<int> order;
  bool alike = true;
  std::pair<int, int> nearness;
  for (const SearchSite::NextGpu& next : site_.ranked(gpu, net)) {
    if (used_[count_][size_t(next.index)]) continue;
    if (order.empty()) nearness = next.nearness;
    alike = alike && next.nearness == nearness;
    order.push_back(next.gpu);
  }
  // While the network lies further ahead, GPUs that are alike inside the node are taken from the
  // far end: those near to the network stay for the end.
  if (alike && stand.to_net_at > stand.step + 1) std::reverse(order.begin(), order.end());
  return order;
}

// NVSwitches prefer few partners for each GPU: the one before and the one behind it.
std::vector<int> ChannelSearch::free_neighbours(int gpu) const {
  const std::vector<int>& gpus = site_.gpus();
  const size_t self = size_t(site_.index_of(gpu));
  const int before = gpus[(self + gpus.size() - 1) % gpus.size()];
  const int after = gpus[(self + 1) % gpus.size()];
  std::vector<int> wanted;
  if (rules_.pattern == Pattern::ring)
    wanted = {before, after};
  else if (rules_.pattern == Pattern::tree)
    wanted = {after};
  else
    wanted = {after, before};
  if (before == after) wanted.resize(1);
  std::erase_if(wanted, [&](int each) { return !is_free(each); });
  return wanted;
}

bool ChannelSearch::take(int from, int to, Rate rate, PathType worst) {
  const SearchSite::Step& step = site_.step(from, to);
  // Trees carry data both ways.
  const PathType type = rules_.pattern == Pattern::ring ? step.type : step.both_types;
  if (type > worst || !loads_.take(from, to, rate)) return false;
  hops_ += step.hops;
  return true;
}

void ChannelSearch::give(int from, int to, Rate rate) {
  loads_.give(from, to, rate);
  hops_ -= site_.step(from, to).hops;
}

}  // namespace collctl::topology
