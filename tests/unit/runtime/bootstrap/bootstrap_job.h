// A job of the bootstrap tests: roots and ranks as threads of this process, with real sockets on
// loopback.
#pragma once
#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

#include "base/format.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/bootstrap/wire.h"
#include "tests/catch.h"
#include "tests/unit/runtime/says.h"

namespace collctl::runtime::testing {

// Failures that are noticed at once must not take until the 60 s deadline; generous all the same.
inline constexpr int64_t kAtOnceNs = 20'000'000'000;

inline Address loopback(bool v6 = false) {
  return *base::parse_address(v6 ? "[::1]:0" : "127.0.0.1:0");
}

inline base::Secret secret_of(uint8_t fill) {
  base::Secret s;
  s.bytes.fill(fill);
  return s;
}

struct JobShape {
  int size = 2;
  int roots = 1;
  bool v6 = false;
  double join_s = 60;
  size_t lines_at_most = 0;
  std::vector<std::string> hosts{};
};

class Job {
 public:
  explicit Job(const JobShape& shape) : shape_(shape) {
    for (int i = 0; i < shape.roots; ++i) {
      BootstrapRoot::Options o;
      o.listen_at = loopback(shape.v6);
      o.secret = secret_of(9);
      o.hosts = shape.hosts;
      o.lines_at_most = shape.lines_at_most;
      auto root = BootstrapRoot::start(o);
      REQUIRE(root.ok());
      ids.push_back(UniqueId::make((*root)->address(), o.secret));
      roots.push_back(std::move(*root));
    }
  }

  Bootstrap::Options options(int rank) const {
    Bootstrap::Options o;
    o.id = ids[0];
    if (ids.size() > 1) o.roots = ids;
    o.rank = rank;
    o.size = shape_.size;
    o.interface = {"lo", loopback(shape_.v6)};
    o.host = format("b{}", rank);
    o.deadline = Deadline::after_seconds(shape_.join_s);
    return o;
  }

  // Every rank but `absent` joins in a thread of its own and then runs `body`; ranks that could not
  // join leave their error.
  using Body = std::function<Status(Bootstrap&)>;
  std::vector<Status> run(const Body& body, const std::vector<int>& absent = {}) const {
    std::vector<Status> outcomes(size_t(shape_.size));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < shape_.size; ++rank) {
      if (std::count(absent.begin(), absent.end(), rank) != 0) continue;
      threads.emplace_back([&, rank] {
        auto joined = Bootstrap::join(options(rank));
        outcomes[size_t(rank)] = joined ? body(**joined) : Status(std::move(joined.error()));
      });
    }
    for (std::thread& t : threads) t.join();
    return outcomes;
  }

  std::vector<UniqueId> ids;
  std::vector<std::unique_ptr<BootstrapRoot>> roots;

 private:
  JobShape shape_;
};

// Ranks by hand: a check-in, the call that brings it.
inline boot::CheckIn check_in_of(const Job& job, int rank, int size) {
  boot::CheckIn c;
  c.rank = rank;
  c.size = size;
  for (const UniqueId& id : job.ids) c.roots.push_back(id.root_address());
  c.host = format("b{}", rank);
  c.peers = c.calls = loopback();
  c.remaining_ms = 60'000;
  return c;
}

inline Result<boot::SealedFd> call_root(const Job& job, const boot::CheckIn& c) {
  base::Session session;
  COLL_ASSIGN(Fd fd, base::auth_connect(job.ids[size_t(c.root_index)].root_address(), secret_of(9),
                                        encoded(c), soon(), {}, nullptr, &session));
  return boot::SealedFd(std::move(fd), session);
}

// The root's next frame to a rank that has called it by hand; it may close the connection behind
// it.
inline boot::Frame answer_on(boot::SealedFd& fd) {
  boot::FrameReader reader;
  std::optional<boot::Frame> frame;
  while (!frame) {
    pollfd p{fd.get(), POLLIN, 0};
    REQUIRE(*base::poll_fds({&p, 1}, soon()) == 1);
    const Status state = reader.fill(fd);
    frame = reader.next();
    REQUIRE((state.ok() || frame));
  }
  return *frame;
}

inline void require_all_ok(const std::vector<Status>& outcomes) {
  for (size_t r = 0; r < outcomes.size(); ++r) {
    const std::string text = outcomes[r] ? "" : outcomes[r].error().chain();
    INFO("rank " << r << ": " << text);
    REQUIRE(outcomes[r].ok());
  }
}

// For use inside ranks' threads, where Catch's own macros may not be used.
inline Status expect(bool condition, const std::string& what) {
  return condition ? Status() : Status(Error(ErrorCode::bad_data, "expected: " + what));
}

}  // namespace collctl::runtime::testing
