// The state of a bootstrap root. One round: ranks check in, all get their place, or all get the
// same reason for failure. A line to each rank stays open until the rank is connected to its
// neighbours, so that a rank that dies meanwhile is noticed at once; where descriptors do not
// suffice, the root hangs up and calls back. Internal to the bootstrap; everything runs on the
// root's thread.
#pragma once
#include <atomic>
#include <list>
#include <set>
#include <thread>

#include "runtime/bootstrap/bootstrap.h"
#include "runtime/bootstrap/wire.h"

namespace collctl::runtime {

struct BootstrapRoot::State {
  struct Line {
    int rank = -1;
    std::string host;
    Address peers, calls;
    boot::SealedFd fd;  // empty when the root hung up, or the rank
    boot::FrameReader reader;
    bool connected = false, called = false;  // called: the root hung up and calls back
  };
  struct Peer {  // another root; at the first root one for each, elsewhere the first root
    boot::SealedFd fd;
    boot::FrameReader reader;
    std::optional<boot::GroupReport> report;
  };
  struct Call {  // a frame for a rank that the root hung up on
    std::unique_ptr<base::AuthConnector> connector;
    int rank = -1;
  };
  enum class Phase : uint8_t { collecting, complete, placed, failed };

  // Set before the thread starts.
  Options options;
  size_t lines_at_most = 0;
  std::unique_ptr<base::AuthListener> listener;
  Fd wake;
  std::atomic<bool> stop{false};
  std::thread thread;

  // As the first check-in says.
  int size = 0, index = 0, first = 0, end = 0;  // the ranks [first, end) are this root's
  std::vector<Address> roots;
  Deadline deadline = Deadline::at_ns(INT64_MAX);   // then those who are missing are named
  Deadline last_word = Deadline::at_ns(INT64_MAX);  // then without waiting for the other roots

  Phase phase = Phase::collecting;
  std::vector<std::unique_ptr<Line>> lines;  // by rank - first
  int checked_in = 0;
  size_t open_lines = 0;
  std::vector<std::string> refused;  // why some were refused, for the error
  Error verdict;                     // with Phase::failed
  std::set<int> told;                // the ranks that were sent the verdict
  std::atomic<int> untold{-1};       // how many were not; -1: the job has not failed

  std::list<Peer> peers;
  std::unique_ptr<base::AuthConnector> to_first;
  bool reported = false;
  std::vector<boot::RankAt> leaders;
  std::list<Call> calls;
  std::vector<std::pair<int, Bytes>> calls_due;  // rank, frame

  void run();
  void add_interest(std::vector<pollfd>& fds);
  void turn();

  // Check-ins (root.cc).
  void accept_callers();
  void check_in(base::Accepted caller);
  Status adopt_job(const boot::CheckIn& c);
  void refuse(boot::SealedFd fd, const Error& why);
  void tell(Line& line, boot::FrameType type, ByteView payload);
  void read_line(Line& line);
  void at_deadline();
  void fail(Error why);
  void count_told(int rank);
  void decline(base::Accepted caller);
  boot::RankAt at(int rank) const;
  std::vector<int> missing() const;

  // Places, call-backs, other roots (root_peers.cc).
  void place_all();
  void drive_calls();
  void advance_roots();
  bool seeks_first() const;
  void report_to_first();
  void read_peer(Peer& peer);
  void welcome_root(base::Accepted caller);
  bool all_reports(bool complete) const;
  Error missing_error() const;
};

}  // namespace collctl::runtime
