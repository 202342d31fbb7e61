#include <sys/mman.h>
#include <sys/wait.h>

#include <fstream>

#include "base/log.h"
#include "runtime/bootstrap/fd.h"
#include "tests/asleep.h"
#include "tests/skip.h"
#include "tests/unit/runtime/bootstrap/bootstrap_job.h"
#include "tests/unit/runtime/few_files.h"

namespace bootstrap_bootstrap_faults_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

// Everybody but `culprit` must fail by naming it.
void check_all_blame(const std::vector<Status>& outcomes, int culprit, ErrorCode code,
                     const std::vector<int>& absent = {}) {
  for (size_t r = 0; r < outcomes.size(); ++r) {
    if (int(r) == culprit || std::count(absent.begin(), absent.end(), int(r)) != 0) continue;
    CAPTURE(r);
    REQUIRE_FALSE(outcomes[r].ok());
    const Error& e = outcomes[r].error();
    CAPTURE(e.chain());
    CHECK(e.code == code);
    CHECK(e.rank == culprit);
    CHECK(says(e, format("rank {} (host b{})", culprit, culprit)));
  }
}

}  // namespace

TEST_CASE("missing ranks are named with their hosts at the deadline", "[bootstrap]") {
  JobShape shape{4};
  shape.join_s = 5;
  shape.hosts = {"b0", "b1", "b2", "b3"};
  Job job(shape);
  const auto outcomes = job.run([](Bootstrap&) { return Status(); }, {1, 2});
  for (const size_t r : {0, 3}) {
    REQUIRE_FALSE(outcomes[r].ok());
    const Error& e = outcomes[r].error();
    CHECK(e.code == ErrorCode::deadline);
    CHECK(says(e, "2/4 ranks checked in; missing: rank 1 (host b1), rank 2 (host b2)"));
    CHECK(e.rank == 1);
    CHECK_FALSE(e.hint.empty());
  }
}

TEST_CASE("a rank with the number of another is refused, the others go on", "[bootstrap]") {
  Job job({3});
  auto first = call_root(job, check_in_of(job, 1, 3));  // holds the place of rank 1
  REQUIRE(first.ok());
  auto o = job.options(1);
  o.deadline = Deadline::after_seconds(20);
  const auto second = Bootstrap::join(o);
  REQUIRE_FALSE(second.ok());
  CHECK(second.error().code == ErrorCode::usage);
  CHECK(says(second.error(), "rank 1 has already checked in from b1"));

  Job whole({3});
  std::atomic<int> refused{0};
  const auto outcomes = whole.run([&](Bootstrap& b) -> Status {
    // Late ones as well.
    if (b.rank() == 0 && !Bootstrap::join(whole.options(2))) ++refused;
    COLL_TRY(b.barrier(soon()));
    return b.finish(soon());
  });
  require_all_ok(outcomes);
  CHECK(refused == 1);
}

TEST_CASE("ranks that are there for different things all learn who is odd, and in what",
          "[bootstrap]") {
  const int n = GENERATE(2, 3, 17);
  CAPTURE(n);
  const auto ends_of = [n](const std::function<std::string(int)>& task) {
    const Job job({n});
    std::vector<Status> ends(static_cast<size_t>(n));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < n; ++rank)
      threads.emplace_back([&, rank] {
        auto options = job.options(rank);
        options.task = task(rank);
        const auto joined = Bootstrap::join(options);
        if (!joined) ends[size_t(rank)] = joined.error();
        if (joined) ends[size_t(rank)] = (*joined)->finish(soon());
      });
    for (std::thread& thread : threads) thread.join();
    return ends;
  };
  require_all_ok(ends_of([](int) { return "what\tthe same\n"; }));
  const std::string a = "what\tlifting\nhow\tby hand\n", b = "what\tlifting\nhow\tby crane\n";
  for (const int odd : {0, 1, n - 1}) {
    CAPTURE(odd);
    for (const Status& end : ends_of([&](int rank) { return rank == odd ? b : a; })) {
      REQUIRE_FALSE(end.ok());
      CHECK(end.error().code == ErrorCode::usage);
      CHECK(end.error().rank == std::max(odd, 1));
      CHECK(end.error().message ==
            (odd == 0 ? "rank 1 was started with another how (by hand, not by crane) than rank 0"
                      : format("rank {} was started with another how (by crane, not by hand) than "
                               "rank 0",
                               odd)));
    }
  }
  for (const Status& end : ends_of([&](int rank) { return rank == 1 ? "" : a; }))
    CHECK(says(end.error(), "rank 1 was started with another command than rank 0"));
}

TEST_CASE("a rank with another idea of the size ends the job at once", "[bootstrap]") {
  Job job({3});
  // Their check-ins have left before rank 2 comes, and the root reads all that is there in turn.
  std::vector<boot::SealedFd> before;
  for (const int rank : {0, 1}) {
    auto fd = call_root(job, check_in_of(job, rank, 3));
    REQUIRE(fd.ok());
    before.push_back(std::move(*fd));
  }
  auto o = job.options(2);
  o.size = 5;
  const auto odd = Bootstrap::join(o);
  REQUIRE_FALSE(odd.ok());
  CHECK(says(odd.error(),
             "rank 2 (host b2) reports a job of 5 ranks; the ranks before it "
             "reported 3"));
  std::vector<Error> told{odd.error()};
  for (boot::SealedFd& fd : before) {
    const boot::Frame frame = answer_on(fd);
    REQUIRE(frame.type == boot::FrameType::failure);
    told.push_back(boot::decode_error(frame.payload));
  }
  for (const Error& e : told) {
    CHECK(e.code == ErrorCode::usage);
    CHECK(e.rank == 2);
  }
}

TEST_CASE("a rank number beyond the job is refused", "[bootstrap]") {
  Job job({2});
  auto o = job.options(1);
  o.rank = 2;
  const auto r = Bootstrap::join(o);
  REQUIRE_FALSE(r.ok());
  CHECK(r.error().code == ErrorCode::usage);
  auto fd = call_root(job, check_in_of(job, 7, 2));
  REQUIRE(fd.ok());
  const boot::Frame frame = answer_on(*fd);
  CHECK(frame.type == boot::FrameType::failure);
  CHECK(says(boot::decode_error(frame.payload), "rank 7 is not one of the ranks 0 to 1"));
}

TEST_CASE("strangers do not disturb the job", "[bootstrap]") {
  Job job({4});
  const Address at = job.roots[0]->address();
  std::vector<Fd> strangers;
  for (int i = 0; i < 20; ++i) {
    auto fd = base::connect_tcp(at, soon(), true);
    REQUIRE(fd.ok());
    const std::string noise(size_t(i) * 100, 'n');
    REQUIRE(base::write_exact(fd->get(), noise.data(), noise.size(), soon()).ok());
    strangers.push_back(std::move(*fd));
  }
  // One knows the secret and talks nonsense.
  const std::string nonsense = "nonsense";
  base::Session session;
  auto insider = base::auth_connect(
      at, secret_of(9), {reinterpret_cast<const uint8_t*>(nonsense.data()), nonsense.size()},
      soon(), {}, nullptr, &session);
  REQUIRE(insider.ok());
  std::atomic<int> turned_down{0};
  std::thread other_job([&] {
    auto o = job.options(1);
    o.id.secret = secret_of(3);
    const auto r = Bootstrap::join(o);
    if (!r && r.error().code == ErrorCode::lost) ++turned_down;
  });
  const auto outcomes = job.run([](Bootstrap& b) -> Status {
    COLL_TRY(b.barrier(soon()));
    return b.finish(soon());
  });
  other_job.join();
  boot::FrameReader reader;
  boot::SealedFd line(std::move(*insider), session);
  REQUIRE(reader.fill(line).ok());
  const auto told = reader.next();
  REQUIRE(told.has_value());
  CHECK(says(boot::decode_error(told->payload), "does not understand this check-in"));
  require_all_ok(outcomes);
  CHECK(turned_down == 1);
}

TEST_CASE("a rank that dies after its check-in is named at once", "[bootstrap]") {
  Job job({4});
  auto fd = call_root(job, check_in_of(job, 2, 4));
  REQUIRE(fd.ok());
  bool waits = false;
  std::thread death([&] {
    waits = test::wait_until_others_sleep();
    fd->reset();
  });
  // Rank 3 never comes, so that the root is still waiting.
  auto outcomes = job.run([](Bootstrap&) { return Status(); }, {2, 3});
  death.join();
  CHECK(waits);
  check_all_blame(outcomes, 2, ErrorCode::lost, {3});
}

TEST_CASE("a rank that dies before it connects is named at once", "[bootstrap]") {
  const int n = GENERATE(2, 5, 20);
  const bool listens = GENERATE(false, true);
  CAPTURE(n, listens);
  const int culprit = n - 2;
  Job job({n});
  auto listener = base::AuthListener::listen(loopback(), secret_of(9));
  REQUIRE(listener.ok());
  boot::CheckIn c = check_in_of(job, culprit, n);
  c.peers = c.calls = (*listener)->address();
  if (!listens) listener->reset();
  auto fd = call_root(job, c);
  REQUIRE(fd.ok());
  bool waits = false;
  std::thread death([&] {
    pollfd p{fd->get(), POLLIN, 0};  // its place has come
    waits = base::poll_fds({&p, 1}, soon()) && test::wait_until_others_sleep();
    fd->reset();
    listener->reset();
  });
  const auto outcomes = job.run([](Bootstrap&) { return Status(); }, {culprit});
  death.join();
  CHECK(waits);
  check_all_blame(outcomes, culprit, ErrorCode::lost);
}

TEST_CASE("a rank that dies during a collective is named at once", "[bootstrap]") {
  const int n = GENERATE(2, 3, 8, 17, 40);
  const int culprit = GENERATE(0, 1);
  const bool barrier = GENERATE(false, true);
  CAPTURE(n, culprit, barrier);
  Job job({n});
  const auto outcomes = job.run([&](Bootstrap& b) -> Status {
    COLL_TRY(b.barrier(soon()));
    if (b.rank() == culprit) return {};  // destroyed without finish()
    std::vector<uint64_t> data(size_t(b.size()) * 1000);
    return barrier ? b.barrier(soon()) : b.all_gather(data.data(), 8000, soon());
  });
  check_all_blame(outcomes, culprit, ErrorCode::lost);
}

TEST_CASE("a dead rank ends messages and descriptors with it", "[bootstrap]") {
  const int how = GENERATE(0, 1, 2, 3, 4);
  CAPTURE(how);
  Job job({4});
  const auto outcomes = job.run([how](Bootstrap& b) -> Status {
    b.set_local_ranks({0, 1, 2, 3});
    COLL_TRY(b.barrier(soon()));
    if (b.rank() == 2) return {};
    uint32_t word[4] = {};
    if (how == 0) return b.local_all_gather(word, 4, soon());
    Status outcome;
    while (outcome && how == 1) outcome = b.send(2, 1, Bytes(1 << 20), soon());
    if (how == 2) {
      auto got = b.recv(2, 1, soon());
      return got ? Status() : Status(got.error());
    }
    if (how == 3) {
      auto got = b.recv_fd(2, 1, soon());
      return got ? Status() : Status(got.error());
    }
    while (outcome && how == 4) outcome = b.send_fd(2, 1, 0, soon());
    return outcome;
  });
  check_all_blame(outcomes, 2, ErrorCode::lost);
}

TEST_CASE("a descriptor from who does not know the secret is dropped", "[bootstrap]") {
  using runtime::boot::FdSocket;
  const auto fd_socket = FdSocket::open(0, secret_of(1)),
             friendly = FdSocket::open(1, secret_of(1)), hostile = FdSocket::open(1, secret_of(2));
  REQUIRE((fd_socket.ok() && friendly.ok() && hostile.ok()));
  const Fd memory(::memfd_create("test", MFD_CLOEXEC));
  const FdSocket::Address& to = (*fd_socket)->address();
  REQUIRE((*hostile)->send(0, to, 5, memory.get(), soon()).ok());
  REQUIRE((*fd_socket)->receive().ok());
  CHECK_FALSE((*fd_socket)->take(1, 5));
  REQUIRE((*friendly)->send(0, to, 5, memory.get(), soon()).ok());
  REQUIRE((*fd_socket)->receive().ok());
  CHECK((*fd_socket)->take(1, 5));
  CHECK_FALSE((*fd_socket)->take(1, 5));
  const Status nobody = (*friendly)->send(3, {1, to.path + "0"}, 5, memory.get(), soon());
  REQUIRE_FALSE(nobody.ok());
  CHECK(nobody.error().code == ErrorCode::lost);
}

TEST_CASE("another user's process cannot reach the descriptor socket", "[bootstrap][may_skip]") {
  using runtime::boot::FdSocket;
  if (::geteuid() != 0) return collctl::test::skip("only root can act as another user");
  const auto fd_socket = FdSocket::open(0, secret_of(1));
  REQUIRE(fd_socket.ok());
  const std::string path = (*fd_socket)->address().path;
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    path.copy(name.sun_path, sizeof name.sun_path - 1);
    if (::setresgid(4711, 4711, 4711) != 0 || ::setresuid(4711, 4711, 4711) != 0) ::_exit(2);
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    const int failed = ::connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name);
    ::_exit(failed != 0 && errno == EACCES ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(stranger, &status, 0) == stranger);
  CHECK(status == 0);
  // No name that all users can read and connect to.
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);)
    CHECK(line.find("@collctl") == std::string::npos);
}

TEST_CASE("what a stranger sends to the descriptor socket is warned of sixteen times",
          "[bootstrap]") {
  using runtime::boot::FdSocket;
  char log[] = "/tmp/collctl-log-XXXXXX";
  const Fd file(::mkstemp(log));
  REQUIRE(file);
  {
    auto fd_socket = FdSocket::open(0, secret_of(1)), hostile = FdSocket::open(1, secret_of(2));
    REQUIRE((fd_socket.ok() && hostile.ok()));
    REQUIRE(base::log_configure({.file = log}, 0).ok());
    for (int i = 0; i < 40; ++i) {
      REQUIRE((*hostile)->send(0, (*fd_socket)->address(), 5, file.get(), soon()).ok());
      REQUIRE((*fd_socket)->receive().ok());
    }
    CHECK((*fd_socket)->dropped() == 40);
  }
  REQUIRE(base::log_configure({.file = "/dev/stderr"}, 0).ok());
  std::ifstream lines(log);
  int warnings = 0, totals = 0;
  for (std::string line; std::getline(lines, line);) {
    warnings += line.find("does not know the job's secret") != std::string::npos;
    totals += line.find("dropped 40 descriptors") != std::string::npos;
  }
  ::unlink(log);
  CHECK(warnings == 16);
  CHECK(totals == 1);
}

TEST_CASE("a descriptor that finds no room here is an error", "[bootstrap]") {
  using runtime::boot::FdSocket;
  const auto fd_socket = FdSocket::open(0, secret_of(1)),
             friendly = FdSocket::open(1, secret_of(1));
  REQUIRE((fd_socket.ok() && friendly.ok()));
  const Fd memory(::memfd_create("test", MFD_CLOEXEC));
  for (const uint64_t tag : {5, 6})
    REQUIRE((*friendly)->send(0, (*fd_socket)->address(), tag, memory.get(), soon()).ok());
  const auto receive_with = [&](size_t left) {
    const runtime::testing::FewFiles few(left);
    return (*fd_socket)->receive();
  };
  // Not even for a connection that brings one; for two connections, and one of what they bring.
  for (const size_t left : {0, 3}) {
    const Status received = receive_with(left);
    INFO("room for " << left);
    REQUIRE_FALSE(received.ok());
    INFO(received.error().chain());
    CHECK(received.error().code == ErrorCode::unavailable);
    CHECK(received.error().chain().find("Too many open files") != std::string::npos);
  }
  CHECK((*fd_socket)->receive().ok());
  CHECK((*fd_socket)->take(1, 5));
  CHECK_FALSE((*fd_socket)->take(1, 6));
}

TEST_CASE("a slow rank is named when the deadline of a collective passes", "[bootstrap]") {
  const int n = GENERATE(2, 5, 17);
  Job job({n});
  std::atomic<int> done{0};
  const auto outcomes = job.run([&](Bootstrap& b) -> Status {
    COLL_TRY(b.barrier(soon()));
    if (b.rank() == 1) {
      while (done < n - 1) base::sleep_until(Deadline::after_ms(5));
      return {};
    }
    Status outcome = b.barrier(Deadline::after_ms(500));
    ++done;
    while (done < n - 1) base::sleep_until(Deadline::after_ms(5));
    return outcome;
  });
  bool named = false;
  for (int r = 0; r < n; ++r) {
    if (r == 1) continue;
    REQUIRE_FALSE(outcomes[size_t(r)].ok());
    const Error& e = outcomes[size_t(r)].error();
    CHECK(e.code == ErrorCode::deadline);
    CHECK(says(e, format("bootstrap: barrier: rank {} waited", r)));
    named |= e.rank == 1 && e.host == "b1";
  }
  CHECK(named);
}

TEST_CASE("ranks in different calls find out", "[bootstrap]") {
  Job job({2});
  const auto outcomes = job.run([](Bootstrap& b) -> Status {
    uint64_t data[4] = {};
    return b.all_gather(data, b.rank() == 0 ? 8 : 16, soon());
  });
  int found_out = 0;
  for (const Status& s : outcomes) {
    REQUIRE_FALSE(s.ok());
    // The rank that hears second may only find the other gone.
    const bool told = says(s.error(), "gathers blocks of");
    found_out += told;
    if (!told) CHECK(s.error().code == ErrorCode::lost);
  }
  CHECK(found_out > 0);
}

TEST_CASE("several roots spread a failure in one of them", "[bootstrap]") {
  Job job({9, 3});
  boot::CheckIn c = check_in_of(job, 7, 9);
  c.root_index = 2;
  auto fd = call_root(job, c);
  REQUIRE(fd.ok());
  bool waits = false;
  std::thread death([&] {
    waits = test::wait_until_others_sleep();
    fd->reset();
  });
  const auto outcomes = job.run([](Bootstrap&) { return Status(); }, {7, 1});
  death.join();
  CHECK(waits);
  check_all_blame(outcomes, 7, ErrorCode::lost, {1});
}

}  // namespace bootstrap_bootstrap_faults_tests
