// PXN: ranks of one node that send through each other's GPUs. A rank with data for a network device
// beside another rank's GPU asks that rank, by a Unix socket that both have from the start on
// (RelayLines). There a thread, the desk, makes the memory that the data is written to and the link
// that sends it; that rank's application has no part in it, and its proxy moves the link.
//
// A link is made in two steps, between which its two ends exchange what they need to know: `open`
// answers with the network's description for the receiver; `connect`, with the receiver's, answers
// with the memory's for the sender. Requests are bounded by channels and ranks.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "runtime/links/link_info.h"
#include "runtime/links/proxy.h"
#include "runtime/request/settings.h"
#include "transport/net/relay.h"
#include "transport/transport.h"

namespace collctl::runtime {

// A link's purpose (transport::LinkSpec) where a relay has part in it: this and, between it and the
// sender, the receiver's rank; between it and the receiver, the sender's.
inline constexpr uint32_t kRelayPurpose = 1u << 16;

// Sets a link's slots: with a relay they are the same at all three ranks.
void set_geometry(transport::LinkSpec& spec, const Settings& settings, bool ll128);

enum class RelayCall : uint32_t { open = 1, connect = 2, ping = 3 };

struct RelayRequest {  // of an edge from the rank that asks
  int channel = 0, to = 0;
  std::string nic = {};  // open
  bool ll128 = false;    // open: it carries that, too
  Bytes theirs = {};     // connect: of the receiver
};

// The asking side. Threads: one at a time.
class RelayLines {
 public:
  RelayLines(const std::vector<transport::PeerInfo>& peers, uint32_t* abort_word)
      : peers_(peers), abort_word_(abort_word) {}

  void add(int relay, base::Fd line) { lines_[relay] = std::move(line); }
  // The answers of each relay to its requests, in their order; all work at the same time. An error
  // names the relay that is gone, or does not answer.
  using Requests = std::map<int, std::vector<RelayRequest>>;
  using Answers = std::map<int, std::vector<Result<Bytes>>>;
  Result<Answers> ask(RelayCall call, const Requests& requests, Deadline deadline);

 private:
  Status send(int relay, ByteView body, Deadline deadline);
  Result<Bytes> receive(int relay, Deadline deadline);
  Status wait(int relay, short events, Deadline deadline);
  // The line is in the middle of something, or broken, and of no more use.
  Error given_up(int relay, Error why);

  const std::vector<transport::PeerInfo>& peers_;
  uint32_t* const abort_word_;
  std::map<int, base::Fd> lines_;
};

// The answering side. Threads: its own, and the communicator's for what is public.
class RelayDesk {
 public:
  struct Options {
    int rank = 0;
    const std::vector<transport::PeerInfo>* peers = nullptr;
    const Settings* settings = nullptr;
    transport::Services services;
    // For descriptors to the ranks that ask, in place of the services' own, by the desk's thread.
    std::unique_ptr<transport::FdExchange> fds;
    ProxyEngine* proxy = nullptr;
  };
  // `lines` by the rank that may ask.
  static Result<std::unique_ptr<RelayDesk>> start(Options options, std::map<int, base::Fd>&& lines);
  ~RelayDesk();  // ends the thread and takes the links from the proxy

  // This end's infos of the links that it has made.
  std::vector<LinkInfo> infos() const;
  void each(const std::function<void(const Edge&, const transport::Link&)>& look) const;
  bool has_links() const { return has_links_.load(std::memory_order_acquire); }

 private:
  struct Asker {
    int rank = -1;
    base::Fd line;
    Bytes in, out;
  };
  struct Half {  // between the two steps
    transport::LinkSpec from_source, to_target;
    std::shared_ptr<transport::RelayMemory> memory;
    std::unique_ptr<transport::Endpoint> sender;
  };
  struct Made {
    std::unique_ptr<transport::Endpoint> offer;
    std::unique_ptr<transport::Link> link;
    LinkInfo info;
  };

  explicit RelayDesk(Options options) : options_(std::move(options)) {}
  void run();
  bool serve(Asker& asker);
  bool answer(Asker& asker, ByteView frame);
  Result<Bytes> open(int from, const RelayRequest& request, Deadline deadline);
  Result<Bytes> connect(int from, const RelayRequest& request, Deadline deadline);

  Options options_;
  std::vector<Asker> askers_;  // the thread's
  std::map<Edge, Half> halves_;
  base::Fd bell_;
  std::atomic<bool> stop_{false}, has_links_{false};
  mutable std::mutex mutex_;  // of what follows
  std::map<Edge, Made> made_;
  std::thread thread_;
};

}  // namespace collctl::runtime
