// Wire: from edges (channel, sender, receiver) to links. Decides the transport of each pair by the
// table, exchanges the blobs, owns the links, and keeps the tables of fifos that work is run with.
//
// Called by the communicator at start-up (ring and tree, all ranks together) and by whoever
// executes a submission (first use of a point-to-point link, both ends together); one thread at a
// time, and never while work runs. Both ends must ask for the same edges between them in the same
// order of calls. If one end fails (full /dev/shm), both ends use the next transport.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/contract/fifo.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/links/link_info.h"
#include "runtime/links/proxy.h"
#include "runtime/links/relay_desk.h"
#include "runtime/request/settings.h"
#include "transport/net/plugin/reducer.h"
#include "transport/transport.h"

namespace collctl::runtime {

// The rank that is to send an edge's data for its sender (PXN).
struct RelayChoice {
  int by = -1;               // -1: nobody
  bool asked = false;        // by name: going without is an error
  std::string refused = {};  // why it cannot be, though asked for
};

class Wire {
 public:
  struct Options {
    int rank = 0;
    const std::vector<transport::PeerInfo>* peers = nullptr;
    const Settings* settings = nullptr;
    transport::Services services;
    Bootstrap* bootstrap = nullptr;
    ProxyEngine* proxy = nullptr;
    // Whether an edge wants slots for LL128, which are large; the same at both ends. Null: all do.
    std::function<bool(const Edge&)> wants_ll128;
    bool network_ll128 = false;  // links over a network may have them, too
    // Why two ranks of a host are not to use P2P; empty: they may. Null: all may.
    std::function<std::string(int a, int b)> no_p2p;
    // The network device of this rank's end of an edge; null: not known.
    std::function<transport::NicChoice(const Edge&)> nic_of;
    // The same at both ends. Null: nobody, of any edge.
    std::function<RelayChoice(const Edge&)> relay_of;
  };
  explicit Wire(Options options);
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  // Before any relayed edge is connected, all ranks of a node together: the lines to those that
  // this one may ask to send for it (PXN), and from those that may ask this one.
  Status open_relays(const std::set<int>& relays, const std::set<int>& askers, Deadline deadline);
  // Connects the edges of this rank that are not yet there. `purpose` as in transport::LinkSpec.
  Status connect(std::span<const Edge> edges, uint32_t purpose, Deadline deadline);
  bool has(const Edge& edge) const { return links_.contains(edge); }
  bool has(const Edge& edge, kernels::Protocol protocol) const;
  // This rank's end of a link; null: there is no link, or it goes without the protocol.
  kernels::Fifo* fifo(const Edge& edge, kernels::Protocol protocol) const;
  std::string why(const Edge& edge) const;  // Link::why; empty without a link

  // Fifos of a channel by peer and protocol; the tables live as long as the Wire.
  const kernels::ChannelLinks& channel(int channel);
  int channel_count() const { return int(tables_.size()); }
  size_t link_count() const { return links_.size() + reducers_.size(); }  // only grows
  // From now on channel c's tables hold windows[c]; none where there are fewer. The caller owns
  // them.
  void use_windows(std::span<kernels::Window> windows) { windows_ = windows; }
  // A head's end of in-network reduction: in the channel's tables it stands for this rank itself.
  void add_reducer(int channel, std::unique_ptr<transport::ReducerLink> link);
  // All ranks have theirs.
  void note_reducers() { has_reducers_ = true; }
  bool has_reducers() const { return has_reducers_; }
  const transport::Services& services() const { return options_.services; }
  // Some link needs the host to move it.
  bool proxied() const { return proxied_ || (desk_ != nullptr && desk_->has_links()); }
  uint64_t device_bytes() const;         // GPU memory that the links hold
  std::vector<LinkInfo> infos() const;   // in the order they were made
  uint64_t carrying_ns(int peer) const;  // of all links to it, as Link::carrying_ns
  // The interface of this end, where sockets are spread over several; else empty.
  std::string interface_of(const Edge& edge) const;
  // The fault of a peer's links as far as this end can see, for an error; may be empty.
  std::string condition(int peer) const;
  // A peer to which nothing passes any more, as far as this end can see (Link::unacknowledged_s).
  struct Unreached {
    int peer = -1;
    double seconds = 0;
    std::string interface = {};  // as of interface_of()
  };
  std::optional<Unreached> unreached() const;
  // The rank behind a relay that has not taken this rank's data: the rank that it sends to when it
  // is there and answers, else the relay itself; none: it holds nothing of this rank's.
  std::optional<int> behind_relay(int relay, Deadline deadline);
  // Why an edge did not get its first transport; the first such edge's reason, empty when all did.
  const std::string& fallback() const { return fallback_; }
  // All ranks have connected what was asked for: drops what was kept for late senders.
  void settled() { offers_.clear(); }
  // Takes all links from the proxy engine and closes them. Nothing may use their fifos any more.
  void close();

 private:
  struct Pending;
  struct Table;

  // The first usable row of the table at or behind `first`; its index, or why there is none.
  Result<size_t> choose(const Edge& edge, size_t first) const;
  void add_pending(const Edge& edge, std::vector<Pending>& pending);
  void fill_spec(Pending& p, uint32_t purpose) const;
  // Whether the link the other way is made with it.
  static bool is_paired(const Pending& p, const std::vector<Pending*>& round);
  void open(Pending& p, uint32_t purpose, bool paired, Deadline deadline);
  Status open_at_relays(std::span<Pending* const> round, Deadline deadline);
  Status connect_at_relays(std::vector<Pending>& pending, Deadline deadline);
  bool goes_without_relay(Pending& p);
  bool wants_ll128(const Pending& p) const;
  void each_link(
      const std::function<void(const Edge&, const transport::Link&, int far)>& look) const;
  int other_end(const Edge& edge) const;
  Status exchange(std::vector<Pending*>& round, Deadline deadline);
  Status read_answer(int peer, ByteView blob, std::span<Pending*> edges);
  Status settle(Pending& p, Deadline deadline);
  Status connect_all(std::vector<Pending>& pending, uint32_t purpose, Deadline deadline);
  Status make_links(std::vector<Pending>& pending, transport::Direction direction,
                    Deadline deadline);
  void enter(const Pending& p, transport::Link& link);

  Options options_;
  std::map<Edge, std::unique_ptr<transport::Link>> links_;
  std::map<Edge, int> relays_;       // of those links that have one
  std::optional<RelayLines> lines_;  // to ask them
  std::unique_ptr<RelayDesk> desk_;  // where others ask this one
  // Receiving endpoints: what they offer can be taken until they die, and the sender may arrive
  // late.
  std::vector<std::unique_ptr<transport::Endpoint>> offers_;
  std::vector<LinkInfo> infos_;
  std::vector<std::unique_ptr<Table>> tables_;
  std::span<kernels::Window> windows_;
  std::string fallback_;
  std::vector<std::unique_ptr<transport::ReducerLink>> reducers_;
  bool proxied_ = false, has_reducers_ = false;
};

}  // namespace collctl::runtime
