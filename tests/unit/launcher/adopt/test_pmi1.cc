// The PMI-1 client against a server of the test's own: good ones, and all kinds of bad ones.
#include <sys/socket.h>

#include <functional>
#include <map>
#include <random>
#include <thread>

#include "base/socket.h"
#include "launcher/adopt/pmi1.h"
#include "launcher/hosts/key_value.h"
#include "tests/catch.h"

namespace adopt_pmi1_tests {

using namespace collctl;
using namespace collctl::launcher;

namespace {

// Answers each line with what the script says; hangs up at "".
class Server {
 public:
  using Script = std::function<std::string(const std::string& line)>;

  explicit Server(Script script) : script_(std::move(script)) {
    int pair[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    client_ = base::Fd(pair[0]);
    server_ = base::Fd(pair[1]);
    thread_ = std::thread([this] { serve(); });
  }
  ~Server() {
    client_.reset();
    ::shutdown(server_.get(), SHUT_RDWR);
    thread_.join();
  }
  Lookup environment(int rank = 0, int size = 2) const {
    const int fd = client_.get();
    return [=](const char* name) -> std::optional<std::string> {
      if (name == std::string("PMI_FD")) return std::to_string(fd);
      if (name == std::string("PMI_RANK")) return std::to_string(rank);
      if (name == std::string("PMI_SIZE")) return std::to_string(size);
      return std::nullopt;
    };
  }

 private:
  void serve() {
    std::string line;
    char c;
    while (::recv(server_.get(), &c, 1, 0) == 1) {
      if (c != '\n') {
        line += c;
        continue;
      }
      const std::string answer = script_(line);
      line.clear();
      if (answer.empty()) {
        ::shutdown(server_.get(), SHUT_RDWR);
        return;
      }
      if (answer != "silence") ::send(server_.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    }
  }

  Script script_;
  base::Fd client_, server_;
  std::thread thread_;
};

// One rank alone in its store: what was put can be got.
struct Store {
  int value_limit = 1024;
  std::map<std::string, std::string> values;

  std::string operator()(const std::string& line) {
    const auto word = [&](const std::string& name) {
      const size_t at = line.find(" " + name + "=");
      if (at == std::string::npos) return std::string();
      const size_t from = at + name.size() + 2;
      return line.substr(from, line.find(' ', from) - from);
    };
    if (line == "cmd=init pmi_version=1 pmi_subversion=1")
      return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n";
    if (line == "cmd=get_maxes")
      return "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=" + std::to_string(value_limit) +
             "\n";
    if (line == "cmd=get_my_kvsname") return "cmd=my_kvsname kvsname=kvs_1\n";
    if (line == "cmd=barrier_in") return "cmd=barrier_out\n";
    if (line == "cmd=finalize") return "cmd=finalize_ack\n";
    if (line.rfind("cmd=put ", 0) == 0) {
      if (word("kvsname") != "kvs_1" || int(word("value").size()) >= value_limit)
        return "cmd=put_result rc=-1 msg=bad\n";
      values[word("key")] = word("value");
      return "cmd=put_result rc=0 msg=success\n";
    }
    if (line.rfind("cmd=get ", 0) == 0) {
      const auto found = values.find(word("key"));
      if (found == values.end()) return "cmd=get_result rc=-1 msg=key_not_found value=unknown\n";
      return "cmd=get_result rc=0 msg=success value=" + found->second + "\n";
    }
    return "cmd=what\n";
  }
};

Deadline soon() {
  return Deadline::after_seconds(60);
}

Error open_error(Server::Script script, double seconds = 10) {
  Server server(std::move(script));
  auto client = Pmi1Client::open(server.environment(), Deadline::after_seconds(seconds));
  REQUIRE_FALSE(client.ok());
  return client.error();
}

// The good answers up to a line, then this one.
Server::Script good_until(const std::string& command, const std::string& answer) {
  return [=, store = Store()](const std::string& line) mutable {
    return line.rfind("cmd=" + command, 0) == 0 ? answer : store(line);
  };
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a PMI-1 session") {
  Server server{Store()};
  auto client = Pmi1Client::open(server.environment(1, 3), soon());
  REQUIRE(client.ok());
  CHECK((*client)->rank() == 1);
  CHECK((*client)->size() == 3);
  CHECK((*client)->put("a", "1", soon()).ok());
  CHECK((*client)->fence(soon()).ok());
  const auto got = (*client)->get(0, "a", soon());
  REQUIRE(got.ok());
  CHECK(*got == "1");
  CHECK_FALSE((*client)->get(0, "b", soon()).ok());
  CHECK((*client)->finish(soon()).ok());
}

TEST_CASE("a long text travels in pieces within the limits") {
  std::string text;
  for (int i = 0; i < 256; ++i) text += "0123456789abcdef"[i % 16];
  for (const int limit : {17, 40, 256, 257, 1024, 100000}) {
    INFO("limit " << limit);
    auto values = std::make_shared<std::map<std::string, std::string>>();
    // Rank 0 puts, then rank 1 gets from the same values.
    for (const int rank : {0, 1}) {
      Server server([values, store = Store{limit, {}}](const std::string& line) mutable {
        store.values = *values;
        const std::string answer = store(line);
        *values = store.values;
        return answer;
      });
      auto client = Pmi1Client::open(server.environment(rank), soon());
      REQUIRE(client.ok());
      const auto got = hand_round(**client, rank == 0 ? text : "", soon());
      REQUIRE(got.ok());
      CHECK(*got == text);
    }
  }
}

TEST_CASE("rank 0 that failed is told to the others") {
  auto values = std::make_shared<std::map<std::string, std::string>>();
  for (const int rank : {0, 1}) {
    Server server([values, store = Store()](const std::string& line) mutable {
      store.values = *values;
      const std::string answer = store(line);
      *values = store.values;
      return answer;
    });
    auto client = Pmi1Client::open(server.environment(rank), soon());
    REQUIRE(client.ok());
    const auto got = hand_round(**client, "", soon());
    if (rank == 0) continue;
    REQUIRE_FALSE(got.ok());
    CHECK(got.error().code == ErrorCode::lost);
    CHECK(got.error().rank == 0);
  }
}

TEST_CASE("a PMI server that does not answer is a deadline") {
  for (const char* command : {"init", "get_maxes", "get_my_kvsname"}) {
    const Error e = open_error(good_until(command, "silence"), 1);
    CHECK(e.code == ErrorCode::deadline);
    CHECK(has(e.message, std::string("'") + command + "'"));
    CHECK(has(e.message, "PMI_FD="));
  }
  Server server(good_until("barrier_in", "silence"));
  auto client = Pmi1Client::open(server.environment(), soon());
  REQUIRE(client.ok());
  const Status late = (*client)->fence(Deadline::after_ms(200));
  REQUIRE_FALSE(late.ok());
  CHECK(late.error().code == ErrorCode::deadline);
  CHECK(has(late.error().hint, "not every rank"));
}

TEST_CASE("a PMI server that hangs up, refuses or talks nonsense") {
  CHECK(open_error(good_until("init", "")).code == ErrorCode::lost);
  CHECK(open_error(good_until("get_maxes", "")).code == ErrorCode::lost);
  CHECK(has(open_error(good_until("init", "cmd=response_to_init rc=-1 pmi_version=0\n")).message,
            "rc=-1"));
  CHECK(open_error(good_until("init", "cmd=response_to_init rc=0 pmi_version=2\n")).code ==
        ErrorCode::unavailable);
  CHECK(has(open_error(good_until("get_maxes", "cmd=nonsense\n")).message, "nonsense"));
  CHECK(has(open_error(good_until("get_maxes", "cmd=maxes keylen_max=64 vallen_max=4\n")).message,
            "too short"));
  CHECK(has(open_error(good_until("get_maxes", "cmd=maxes keylen_max=x vallen_max=-9\n")).message,
            "too short"));
  CHECK(has(open_error(good_until("get_my_kvsname", "cmd=my_kvsname\n")).message, "key-value"));
  const std::string endless(200000, 'x');
  CHECK(has(open_error(good_until("init", endless)).message, "line of more than"));
}

TEST_CASE("PMI_FD that is no socket is refused") {
  for (const char* fd : {"9999", "-1", "x", "0x3", ""}) {
    const auto client = Pmi1Client::open(
        [&](const char* name) -> std::optional<std::string> {
          if (name == std::string("PMI_FD")) return fd;
          return std::nullopt;
        },
        soon());
    REQUIRE_FALSE(client.ok());
    CHECK(client.error().code == ErrorCode::usage);
  }
}

TEST_CASE("PMI_PORT: rank and size come over the connection") {
  Address at;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&at.storage);
  v4->sin_family = AF_INET;
  v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.length = sizeof(sockaddr_in);
  const auto listener = base::listen_tcp(at);
  REQUIRE(listener.ok());
  const auto bound = base::local_address(listener->get());
  REQUIRE(bound.ok());
  std::thread server([&] {
    pollfd p{listener->get(), POLLIN, 0};
    if (!base::poll_fds({&p, 1}, soon()).ok()) return;
    auto fd = base::accept_now(listener->get());
    if (!fd.ok()) return;
    Store store;
    std::string line;
    char c;
    while (base::read_exact(fd->get(), &c, 1, soon()).ok()) {
      if (c != '\n') {
        line += c;
        continue;
      }
      const std::string answer =
          line == "cmd=initack pmiid=7"
              ? "cmd=initack rc=0\ncmd=set size=4\ncmd=set rank=3\ncmd=set debug=0\n"
              : store(line);
      line.clear();
      if (!base::write_exact(fd->get(), answer.data(), answer.size(), soon()).ok()) return;
    }
  });
  {
    auto client = Pmi1Client::open(
        [&](const char* name) -> std::optional<std::string> {
          if (name == std::string("PMI_PORT")) return bound->text();
          if (name == std::string("PMI_ID")) return "7";
          return std::nullopt;
        },
        soon());
    REQUIRE(client.ok());
    CHECK((*client)->rank() == 3);
    CHECK((*client)->size() == 4);
    CHECK((*client)->finish(soon()).ok());
  }
  server.join();
}

TEST_CASE("whatever a PMI server says, the client returns") {
  std::mt19937 random(4711);
  int opened = 0;
  for (int round = 0; round < 500; ++round) {
    Server server([&random, store = Store()](const std::string& line) mutable {
      std::string answer = store(line);
      // Now and then an answer is cut, damaged, doubled or followed by another line.
      switch (random() % 12) {
        case 0:
          answer.resize(random() % answer.size());
          answer += '\n';
          break;
        case 1:
          answer[random() % (answer.size() - 1)] = char(random() % 256);
          break;
        case 2:
          answer += answer;
          break;
        case 3:
          answer = "cmd=set rank=1\n" + answer;
          break;
        default:
          break;
      }
      return answer;
    });
    // A damaged line end leaves the client waiting: its deadline ends that.
    const Deadline deadline = Deadline::after_ms(500);
    auto client = Pmi1Client::open(server.environment(), deadline);
    if (!client.ok()) {
      CHECK_FALSE(client.error().message.empty());
      continue;
    }
    ++opened;
    const auto got = hand_round(**client, "text", deadline);
    if (!got.ok()) CHECK_FALSE(got.error().message.empty());
  }
  CHECK(opened > 100);
}

}  // namespace adopt_pmi1_tests
