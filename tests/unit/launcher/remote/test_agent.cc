// The agent as a process of its own, spoken to as a launcher does: start, output, input, signals,
// the end of the launcher, silence, nonsense.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cmath>

#include "base/format.h"
#include "launcher/remote/agent.h"
#include "launcher/remote/agent_protocol.h"
#include "tests/unit/launcher/local/processes.h"

namespace remote_agent_tests {

using namespace collctl;
using namespace collctl::launcher;
using launcher::testing::shell;

namespace {

class AgentProcess {
 public:
  AgentProcess() {
    int fds[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      ::close(fds[0]);
      AgentOptions options;
      options.in_fd = options.out_fd = fds[1];
      options.build = "test";
      options.answer = [](const std::string& what, const std::string& argument) {
        return what == "echo" ? Result<std::string>(argument)
                              : Error(ErrorCode::usage, "no such question");
      };
      ::_exit(run_agent(options));
    }
    ::close(fds[1]);
    fd_ = base::Fd(fds[0]);
    REQUIRE(::fcntl(fd_.get(), F_SETFL, O_NONBLOCK) == 0);
    read_words();
  }
  ~AgentProcess() {
    fd_.reset();
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }

  void send(AgentFrame type, ByteView payload = {}) {
    Bytes wire;
    append_frame(wire, uint16_t(type), payload);
    REQUIRE(::write(fd_.get(), wire.data(), wire.size()) == ssize_t(wire.size()));
  }

  // The next frame other than signs of life; none when the agent has closed or time is up.
  std::optional<RawFrame> next(Deadline deadline = Deadline::after_seconds(60)) {
    while (true) {
      auto frame = parser_.next();
      REQUIRE(frame.ok());
      if (*frame && AgentFrame((*frame)->type) != AgentFrame::alive) return **frame;
      if (*frame) continue;
      if (!fill(deadline)) return std::nullopt;
    }
  }
  RawFrame expect(AgentFrame type) {
    auto frame = next();
    REQUIRE(frame);
    REQUIRE(AgentFrame(frame->type) == type);
    return *frame;
  }
  std::vector<int> start(const std::vector<std::string>& scripts, double heartbeat_s = 60,
                         bool null_stdin = true, double grace_s = 0.2) {
    AgentStart order;
    for (const std::string& script : scripts) {
      AgentRank rank;
      rank.argv = {"sh", "-c", script};
      rank.environment = {"WHO=me"};
      rank.null_stdin = null_stdin;
      order.ranks.push_back(rank);
    }
    order.environment = {"WHO=all", "WHERE=here"};
    order.bind_to = "none";
    order.heartbeat_s = heartbeat_s;
    order.grace_s = grace_s;
    send(AgentFrame::start, encoded(order));
    const auto word = decoded<AgentStarted>(expect(AgentFrame::started).payload);
    REQUIRE(word.ok());
    REQUIRE(word->pids.size() == scripts.size());
    return word->pids;
  }
  void hang_up() { fd_.reset(); }
  // Its exit code, when it ends within a minute; else -1.
  int ended() {
    const Deadline deadline = Deadline::after_seconds(60);
    int status = 0;
    while (::waitpid(pid_, &status, WNOHANG) == 0) {
      if (deadline.passed()) return -1;
      base::sleep_until(Deadline::after_ms(5));
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
  }

 private:
  bool fill(Deadline deadline) {
    uint8_t chunk[4096];
    const ssize_t n = ::read(fd_.get(), chunk, sizeof chunk);
    if (n > 0) parser_.feed({chunk, size_t(n)});
    if (n == 0 || (n < 0 && errno != EAGAIN)) return false;
    if (n > 0) return true;
    pollfd p{fd_.get(), POLLIN, 0};
    const auto ready = base::poll_fds({&p, 1}, deadline);
    return ready.ok() && *ready > 0;
  }
  // Up to and with the line that says that frames follow.
  void read_words() {
    std::string line;
    const std::string wanted = std::string(kAgentWord) + "frames";
    const Deadline deadline = Deadline::after_seconds(60);
    while (true) {
      REQUIRE_FALSE(deadline.passed());
      char c = 0;
      if (::read(fd_.get(), &c, 1) != 1) {
        // time is what is tested: how often it looks
        base::sleep_until(Deadline::after_ms(1));
      } else if (c == '\n') {
        if (line == wanted) break;
        line.clear();
      } else {
        line += c;
      }
    }
    const auto hello = AgentHello::decode(expect(AgentFrame::hello).payload);
    REQUIRE(hello.ok());
    CHECK(hello->build == "test");
    CHECK(hello->pid == pid_);
    CHECK(hello->cores > 0);
    CHECK(hello->free_port > 0);
  }

  int pid_ = -1;
  base::Fd fd_;
  FrameParser parser_;
};

bool gone(int pid) {
  const Deadline deadline = Deadline::after_seconds(60);
  while (!deadline.passed()) {
    const char state = base::process_state(pid);
    if (state == 0 || state == 'Z') return true;
    base::sleep_until(Deadline::after_ms(5));
  }
  return false;
}

Bytes of_rank(uint32_t rank, const std::string& rest = {}) {
  ByteWriter w;
  w.put(rank).put_rest({reinterpret_cast<const uint8_t*>(rest.data()), rest.size()});
  return w.take();
}

Bytes silence(double seconds) {
  return ByteWriter().put(seconds).take();
}

}  // namespace

TEST_CASE("the agent starts ranks, forwards lines and ends, and goes when let go") {
  AgentProcess agent;
  agent.start({"echo $WHO $WHERE; printf open >&2", "exit 7"});
  std::vector<std::string> lines;
  int exits = 0;
  while (exits < 2) {
    const auto frame = agent.next();
    REQUIRE(frame);
    ByteReader r(frame->payload);
    const auto rank = r.get<uint32_t>();
    if (AgentFrame(frame->type) == AgentFrame::line) {
      const int is_stderr = r.get<uint8_t>(), partial = r.get<uint8_t>();
      lines.push_back(std::to_string(rank) + (is_stderr ? "e" : "o") + (partial ? "p" : "w") +
                      std::string(frame->payload.begin() + 6, frame->payload.end()));
    } else {
      REQUIRE(AgentFrame(frame->type) == AgentFrame::exited);
      CHECK(r.get<int32_t>() == (rank == 1 ? 7 : 0));
      CHECK(r.get<int32_t>() == 0);
      ++exits;
    }
  }
  CHECK(lines == std::vector<std::string>{"0owme here", "0epopen"});
  agent.send(AgentFrame::leave);
  CHECK(agent.ended() == 0);
}

TEST_CASE("input reaches a rank and is accounted for") {
  AgentProcess agent;
  agent.start({"cat; echo over"}, 60, false);
  agent.send(AgentFrame::input, of_rank(0, "hello\n"));
  bool fed = false, line = false;
  while (!fed || !line) {
    const auto frame = agent.next();
    REQUIRE(frame);
    ByteReader r(frame->payload);
    r.get<uint32_t>();
    if (AgentFrame(frame->type) == AgentFrame::fed) {
      CHECK(r.get<uint64_t>() == 6);
      fed = true;
    } else {
      CHECK(AgentFrame(frame->type) == AgentFrame::line);
      line = true;
    }
  }
  agent.send(AgentFrame::input_end, of_rank(0));
  const RawFrame last = agent.expect(AgentFrame::line);
  CHECK(std::string(last.payload.begin() + 6, last.payload.end()) == "over");
  agent.expect(AgentFrame::exited);
}

TEST_CASE("nothing survives the launcher's end") {
  AgentProcess agent;
  const auto pids = agent.start({"trap '' TERM; setsid sleep 300 & echo $!; wait; sleep 300"});
  const RawFrame line = agent.expect(AgentFrame::line);
  const int grandchild = std::stoi(std::string(line.payload.begin() + 6, line.payload.end()));
  agent.hang_up();
  CHECK(agent.ended() == int(ErrorCode::lost));
  CHECK(gone(pids[0]));
  CHECK(gone(grandchild));
}

TEST_CASE("ranks of a launcher that is gone have their grace") {
  char path[] = "/tmp/collctl-agent-XXXXXX";
  const base::Fd file(::mkstemp(path));
  REQUIRE(file);
  AgentProcess agent;
  // time is what is tested: a rank that takes a while for its end
  agent.start({format("trap 'sleep 0.3; echo bye >{}; exit 0' TERM; echo up; "
                      "while :; do sleep 0.02; done",
                      path)},
              60, true, 30);
  agent.expect(AgentFrame::line);
  agent.hang_up();
  CHECK(agent.ended() == int(ErrorCode::lost));
  char word[8] = {};
  CHECK(::read(file.get(), word, sizeof word) == 4);
  CHECK(std::string(word) == "bye\n");
  ::unlink(path);
}

TEST_CASE("ranks whose output the launcher does not take wait for it, and lose none of it") {
  constexpr uint64_t kLines = 8000, kLength = 4000;
  AgentProcess agent;
  const int pid = agent.start({launcher::testing::many_lines(kLines, kLength)})[0];
  const uint64_t written = launcher::testing::written_until_blocked(pid);
  CHECK(base::process_state(pid) == 'S');
  CHECK(written > 4 << 20);
  CHECK(written < 16 << 20);
  uint64_t lines = 0, bytes = 0;
  std::optional<RawFrame> frame = agent.next();
  for (; frame && AgentFrame(frame->type) == AgentFrame::line; frame = agent.next()) {
    ++lines;
    bytes += frame->payload.size() - 6;
  }
  REQUIRE(frame);
  CHECK(AgentFrame(frame->type) == AgentFrame::exited);
  CHECK(lines == kLines);
  CHECK(bytes == kLines * kLength);
}

TEST_CASE("nothing survives the launcher's silence") {
  AgentProcess agent;
  const auto pids = agent.start({"sleep 300"}, 3);
  for (int i = 0; i < 18; ++i) {
    // time is what is tested: while the launcher is heard from nothing ends
    base::sleep_until(Deadline::after_ms(200));
    agent.send(AgentFrame::beat, silence(3));
  }
  CHECK(base::process_state(pids[0]) != 0);
  CHECK(agent.ended() == int(ErrorCode::lost));
  CHECK(gone(pids[0]));
}

// Cut off after the greeting, or while other hosts are brought up.
TEST_CASE("an agent that was given nothing to start leaves when the launcher is silent") {
  AgentProcess agent;
  agent.send(AgentFrame::beat, silence(1.5));
  const int64_t began = now_ns();
  CHECK(agent.ended() == int(ErrorCode::lost));
  CHECK(base::seconds_since(began) < 10);
}

TEST_CASE("a launcher that says for how long it will be silent is not missed") {
  AgentProcess agent;
  const auto pids = agent.start({"sleep 300"}, 1.5);
  agent.send(AgentFrame::beat, silence(3600));
  // time is what is tested: more than it would wait otherwise
  base::sleep_until(Deadline::after_ms(4000));
  CHECK(base::process_state(pids[0]) == 'S');
  agent.send(AgentFrame::beat, silence(1));
  CHECK(agent.ended() == int(ErrorCode::lost));
  CHECK(gone(pids[0]));
}

TEST_CASE("a stopped launcher is not missed") {
  AgentProcess agent;
  // Its line first: a shell that is stopped between fork and exec waits for its child in state D.
  const auto pids = agent.start({"echo up; exec sleep 300"}, 3);
  agent.expect(AgentFrame::line);
  agent.send(AgentFrame::beat, silence(3));
  ByteWriter stop, go;
  stop.put(int32_t(SIGTSTP));
  go.put(int32_t(SIGCONT));
  agent.send(AgentFrame::signal, stop.bytes());
  const Deadline soon = Deadline::after_seconds(60);
  while (base::process_state(pids[0]) != 'T' && !soon.passed())
    base::sleep_until(Deadline::after_ms(5));
  // time is what is tested: more than twice what it would wait otherwise
  base::sleep_until(Deadline::after_ms(6500));
  CHECK(base::process_state(pids[0]) == 'T');
  agent.send(AgentFrame::signal, go.bytes());
  agent.send(AgentFrame::look);
  CHECK(agent.expect(AgentFrame::states).payload.size() == 1);
}

TEST_CASE("ranks that cannot be started are refused, with none left") {
  AgentProcess agent;
  AgentStart order;
  order.ranks.resize(2);
  order.ranks[0].argv = {"sleep", "300"};
  order.ranks[1].argv = {"no-such-program-anywhere"};
  order.bind_to = "none";
  agent.send(AgentFrame::start, encoded(order));
  const Error e = decode_error(agent.expect(AgentFrame::refused).payload);
  CHECK(e.code == ErrorCode::launch);
  CHECK(e.rank == 1);
  CHECK(e.chain().find("no-such-program-anywhere") != std::string::npos);
}

TEST_CASE("the agent answers questions and drops nonsense") {
  {
    AgentProcess agent;
    agent.send(AgentFrame::ask, encoded(AgentQuestion{5, "echo", "text"}));
    const auto answer = decoded<AgentAnswer>(agent.expect(AgentFrame::answer).payload);
    REQUIRE(answer.ok());
    CHECK(answer->number == 5);
    CHECK_FALSE(answer->error);
    CHECK(answer->text == "text");
  }
  {
    AgentProcess agent;
    agent.start({"sleep 300"});
    for (const AgentFrame type : {AgentFrame::to_rank, AgentFrame::input, AgentFrame::input_end})
      agent.send(type, of_rank(0x80000000u, std::string("\2\0x", 3)));
    agent.send(AgentFrame::look);
    CHECK(agent.expect(AgentFrame::states).payload.size() == 1);
  }
  for (const Bytes& nonsense : {Bytes(), silence(-1), silence(std::nan(""))}) {
    AgentProcess agent;
    agent.send(AgentFrame::beat, nonsense);
    CHECK(agent.ended() == int(ErrorCode::lost));
  }
  for (const uint16_t type : {uint16_t(0), uint16_t(32), uint16_t(999)}) {
    AgentProcess agent;
    agent.send(AgentFrame(type), of_rank(1, "xyz"));
    CHECK(agent.ended() == int(ErrorCode::lost));
  }
  AgentProcess agent;
  agent.send(AgentFrame::start, of_rank(4'000'000'000, "not an order"));
  const Error e = decode_error(agent.expect(AgentFrame::refused).payload);
  CHECK(e.message.find("malformed") != std::string::npos);
}

TEST_CASE("a frame is ready when its last byte is there, and when it is too long to ever come") {
  Bytes wire;
  append_frame(wire, 7, Bytes(100, 1));
  FrameParser parser;
  for (size_t i = 0; i + 1 < wire.size(); ++i) {
    parser.feed(ByteView(wire).subspan(i, 1));
    REQUIRE_FALSE(parser.ready());
    REQUIRE_FALSE(*parser.next());
  }
  parser.feed(ByteView(wire).last(1));
  CHECK(parser.ready());
  CHECK((*parser.next())->payload.size() == 100);
  CHECK_FALSE(parser.ready());
  const Bytes huge(8, 0xff);
  parser.feed(huge);
  CHECK(parser.ready());
  CHECK_FALSE(parser.next().ok());
}

TEST_CASE("cut and random records are errors, never more") {
  AgentStart start;
  start.ranks.resize(3);
  start.ranks[1].argv = {"a", "b"};
  start.environment = {"A=b"};
  const Bytes whole = encoded(start);
  REQUIRE(decoded<AgentStart>(whole).ok());
  for (size_t n = 0; n < whole.size(); ++n)
    CHECK_FALSE(decoded<AgentStart>({whole.data(), n}).ok());
  uint32_t seed = 12345;
  for (int i = 0; i < 20000; ++i) {
    Bytes noise(i % 64);
    for (uint8_t& b : noise) b = uint8_t((seed = seed * 1664525 + 1013904223) >> 24);
    static_cast<void>(decoded<AgentStart>(noise));
    static_cast<void>(AgentHello::decode(noise));
    static_cast<void>(decoded<AgentStarted>(noise));
  }
  AgentHello other;
  other.version = kAgentVersion + 1;
  const auto refused = AgentHello::decode(encoded(other));
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().hint.find("--stage") != std::string::npos);
}

TEST_CASE("one rank of a host is killed, the others stay") {
  AgentProcess agent;
  agent.start({"sleep 777", "kill -STOP $$; sleep 777"});
  for (const uint32_t rank : {1u, 7u}) {  // no such rank: nothing happens
    ByteWriter w;
    agent.send(AgentFrame::kill, w.put(rank).bytes());
  }
  const RawFrame gone = agent.expect(AgentFrame::exited);
  ByteReader r(gone.payload);
  CHECK(r.get<uint32_t>() == 1);
  CHECK(r.get<int32_t>() == 0);
  CHECK(r.get<int32_t>() == SIGKILL);
  agent.send(AgentFrame::look);
  const Bytes states = agent.expect(AgentFrame::states).payload;
  REQUIRE(states.size() == 2);
  CHECK(states[0] != 0);
  CHECK(states[1] == 0);
}

}  // namespace remote_agent_tests
