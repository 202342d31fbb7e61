#include <cerrno>

#include "base/socket.h"
#include "base/wait.h"
#include "launcher/remote/probe_service.h"
#include "tests/catch.h"

namespace remote_reach_tests {

using namespace collctl;
using namespace collctl::launcher;

namespace {

base::Secret secret_of(std::string_view word) {
  base::Secret secret;
  std::copy_n(word.begin(), std::min(word.size(), secret.bytes.size()), secret.bytes.begin());
  return secret;
}

ReachTarget target(const ReachListener& listener, const char* token, int host = 0) {
  return {host, listener.addresses()[0].address, listener.addresses()[0].port, secret_of(token)};
}

std::unique_ptr<ReachListener> listening(const char* token, double seconds = 30) {
  auto listener = ReachListener::start({"127.0.0.1"}, secret_of(token), seconds);
  REQUIRE(listener.ok());
  REQUIRE((*listener)->addresses().size() == 1);
  REQUIRE((*listener)->addresses()[0].port != 0);
  return std::move(*listener);
}

}  // namespace

TEST_CASE("hosts that reach each other measure the round trip", "[reach]") {
  const auto a = listening("a"), b = listening("b");
  std::vector<ReachTarget> targets;
  for (int i = 0; i < 100; ++i)
    targets.push_back(i % 2 == 0 ? target(*a, "a", i) : target(*b, "b", i));
  const auto results = dial_targets(targets, Deadline::after_seconds(20));
  REQUIRE(results.size() == targets.size());
  for (size_t i = 0; i < results.size(); ++i) {
    INFO(results[i].text);
    CHECK(results[i].end == ReachEnd::ok);
    CHECK(results[i].host == int(i));
    CHECK(results[i].round_trip_us > 0);
  }
  CHECK(dial_targets({}, Deadline::after_seconds(1)).empty());
}

TEST_CASE("each way of not reaching a host has its name", "[reach]") {
  const auto listener = listening("ours");
  // Nobody listens where somebody did.
  ReachTarget closed = target(*listening("gone"), "gone");
  // Somebody does, but says nothing: the kernel takes the connection for it.
  const auto silent_at = numeric_address("127.0.0.1", 0);
  REQUIRE(silent_at.ok());
  const auto silent = base::listen_tcp(*silent_at);
  REQUIRE(silent.ok());
  ReachTarget mute{2, "127.0.0.1", base::local_address(silent->get())->port(), secret_of("x")};
  ReachTarget other = target(*listener, "theirs", 3);
  ReachTarget nonsense{4, "10.0.0", 1, secret_of("x")};
  const auto results = dial_targets({closed, target(*listener, "ours", 1), mute, other, nonsense},
                                    Deadline::after_seconds(5));
  REQUIRE(results.size() == 5);
  CHECK(results[0].end == ReachEnd::refused);
  CHECK(results[1].end == ReachEnd::ok);
  CHECK(results[2].end == ReachEnd::timeout);
  CHECK(results[2].text == "connected, but no answer");
  CHECK(results[3].end == ReachEnd::stranger);
  CHECK(results[4].end == ReachEnd::failed);
  CHECK(results[4].text == "'10.0.0': expected an IPv4 or IPv6 address");
}

TEST_CASE("a listener says which addresses it cannot take, and ends by itself", "[reach]") {
  auto listener = ReachListener::start({"127.0.0.1", "198.51.100.77"}, secret_of("a"), 4);
  REQUIRE(listener.ok());
  const auto& addresses = (*listener)->addresses();
  REQUIRE(addresses.size() == 2);
  CHECK(addresses[0].error == "");
  CHECK(addresses[1].port == 0);
  CHECK(addresses[1].error.find("198.51.100.77") != std::string::npos);
  const ReachTarget at = target(**listener, "a");
  CHECK(dial_targets({at}, Deadline::after_seconds(5))[0].end == ReachEnd::ok);
  const Deadline over = Deadline::after_seconds(60);
  ReachEnd end = ReachEnd::ok;
  while (end == ReachEnd::ok && !over.passed()) {
    base::sleep_until(Deadline::after_ms(50));
    end = dial_targets({at}, Deadline::after_ms(200))[0].end;
  }
  CHECK(end != ReachEnd::ok);
  CHECK_FALSE(ReachListener::start({"no address"}, secret_of("a"), 1).ok());
}

TEST_CASE("agents answer the doctor's questions", "[reach]") {
  ProbeService a("1.2.3"), b("1.2.3");
  const auto listens =
      a.answer(kAskReach, listen_question({"127.0.0.1", "::1"}, secret_of("s"), 30));
  REQUIRE(listens.ok());
  const auto addresses = listen_answer(*listens);
  REQUIRE(addresses.ok());
  REQUIRE(addresses->size() == 2);
  std::vector<ReachTarget> targets;
  for (const auto& at : *addresses)
    if (at.port != 0) targets.push_back({7, at.address, at.port, secret_of("s")});
  REQUIRE_FALSE(targets.empty());
  const auto ask_dial = [&] {
    const auto answer = b.answer(kAskReach, dial_question(targets, 5));
    REQUIRE(answer.ok());
    auto results = dial_answer(*answer);
    REQUIRE(results.ok());
    REQUIRE(results->size() == targets.size());
    return std::move(*results);
  };
  for (const auto& result : ask_dial()) {
    CHECK(result.end == ReachEnd::ok);
    CHECK(result.host == 7);
  }
  CHECK(a.answer(kAskReach, close_question()).ok());
  for (const auto& result : ask_dial()) CHECK(result.end == ReachEnd::refused);

  const auto facts = a.answer(kAskProbe, "");
  REQUIRE(facts.ok());
  CHECK(facts_from_json(*facts)->version == "1.2.3");
  const auto clock = a.answer(kAskClock, "");
  REQUIRE(clock.ok());
  CHECK(std::abs(base::wall_clock_ns() - std::stoll(*clock)) < 60'000'000'000);
}

TEST_CASE("questions and answers that make no sense are errors", "[reach]") {
  ProbeService service("1");
  CHECK_FALSE(service.answer("weather", "").ok());
  for (
      const char* argument :
      {"", "{", "[]", "{}", R"({"do":"dance"})", R"({"do":"listen"})",
       R"({"do":"listen","addresses":["127.0.0.1"],"secret":"zz","seconds":1})",
       R"({"do":"listen","addresses":[7],"secret":"00000000000000000000000000000000","seconds":1})",
       R"({"do":"dial","targets":[{"host":1}],"seconds":1})",
       R"({"do":"dial","targets":{"a":1},"seconds":1})",
       R"({"do":"dial","targets":[],"seconds":"long"})"}) {
    INFO(argument);
    CHECK_FALSE(service.answer(kAskReach, argument).ok());
  }
  for (const char* text : {"", "{", "[7]", R"([{"address":1}])"}) {
    INFO(text);
    CHECK_FALSE(listen_answer(text).ok());
    CHECK_FALSE(dial_answer(text).ok());
    CHECK_FALSE(facts_from_json(text).ok());
  }
}

}  // namespace remote_reach_tests
