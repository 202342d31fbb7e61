#include "launcher/remote/probe_service.h"

#include <algorithm>

#include "base/format.h"
#include "base/record.h"

namespace collctl::launcher {
namespace {

constexpr double kMostListenSeconds = 120, kMostDialSeconds = 10;
constexpr size_t kMostAddresses = 256, kMostTargets = 8192;

// The questions of kAskReach, and the answers to them.
struct Question {
  std::string verb;                    // listen, dial or close
  std::vector<std::string> addresses;  // listen
  base::Secret secret;
  std::vector<ReachTarget> targets;  // dial
  double seconds = 0;
};
struct Listening {
  std::vector<ReachAddress> addresses;
};
struct Dialled {
  std::vector<ReachResult> results;
};

void secret_field(Record& io, base::Secret& secret) {
  std::string text;
  if (!io.reading())
    for (const uint8_t byte : secret.bytes) text += format("{:02x}", int(byte));
  io.field("secret", text);
  if (!io.reading() || !io.status()) return;
  if (text.size() != 2 * secret.bytes.size() ||
      text.find_first_not_of("0123456789abcdef") != std::string::npos)
    return io.fail("secret", "a secret");
  for (size_t i = 0; i < secret.bytes.size(); ++i)
    secret.bytes[i] = uint8_t(std::stoi(text.substr(2 * i, 2), nullptr, 16));
}

}  // namespace

static void fields(Record& io, ReachTarget& target) {
  io.field("host", target.host);
  io.field("address", target.address);
  io.field("port", target.port);
  secret_field(io, target.secret);
}

static void fields(Record& io, ReachAddress& at) {
  io.field("address", at.address);
  io.field("port", at.port);
  io.field("error", at.error);
}

static void fields(Record& io, ReachResult& result) {
  io.field("host", result.host);
  io.field("address", result.address);
  io.name("end", result.end, int(ReachEnd::failed) + 1, reach_word);
  io.field("round_trip_us", result.round_trip_us);
  io.field("text", result.text);
}

namespace {

void fields(Record& io, Question& question) {
  io.field("do", question.verb);
  if (question.verb == "close") return;
  io.field("seconds", question.seconds, 0);
  if (question.verb == "listen") {
    io.field("addresses", question.addresses, kMostAddresses);
    secret_field(io, question.secret);
  } else if (question.verb == "dial") {
    io.field("targets", question.targets, kMostTargets);
  } else {
    io.fail("do", "listen, dial or close");
  }
}

void fields(Record& io, Listening& answer) {
  io.field("addresses", answer.addresses, kMostAddresses);
}

void fields(Record& io, Dialled& answer) {
  io.field("results", answer.results, kMostTargets);
}

template <class T>
Result<T> understood(const std::string& text) {
  auto record = record_of<T>(text);
  if (record) return record;
  return Error(ErrorCode::launch,
               format("reach: malformed message from the other side: {}", record.error().message),
               "is the same version of collctl there? --stage always copies this one");
}

}  // namespace

Result<std::string> ProbeService::answer(const std::string& what, const std::string& argument) {
  if (what == kAskProbe) {
    COLL_ASSIGN(const HostFacts facts, gather_facts(version_));
    return facts_to_json(facts);
  }
  if (what == kAskClock) return std::to_string(base::wall_clock_ns());
  if (what != kAskReach)
    return Error(ErrorCode::usage,
                 format("'{}': expected {}, {} or {}", what, kAskProbe, kAskClock, kAskReach));
  return reach(argument);
}

Result<std::string> ProbeService::reach(const std::string& argument) {
  COLL_ASSIGN(const Question question, understood<Question>(argument));
  if (question.verb == "listen") {
    COLL_ASSIGN(listener_, ReachListener::start(question.addresses, question.secret,
                                                std::min(question.seconds, kMostListenSeconds)));
    return json_of(Listening{listener_->addresses()});
  }
  if (question.verb == "dial") {
    const double seconds = std::min(question.seconds, kMostDialSeconds);
    return json_of(Dialled{dial_targets(question.targets, Deadline::after_seconds(seconds))});
  }
  listener_.reset();
  return std::string("{}");
}

std::string listen_question(const std::vector<std::string>& addresses, const base::Secret& secret,
                            double seconds) {
  return json_of(Question{"listen", addresses, secret, {}, seconds});
}

std::string dial_question(const std::vector<ReachTarget>& targets, double seconds) {
  return json_of(Question{"dial", {}, {}, targets, seconds});
}

std::string close_question() {
  return json_of(Question{"close", {}, {}, {}, 0});
}

Result<std::vector<ReachAddress>> listen_answer(const std::string& text) {
  COLL_ASSIGN(Listening answer, understood<Listening>(text));
  return std::move(answer.addresses);
}

Result<std::vector<ReachResult>> dial_answer(const std::string& text) {
  COLL_ASSIGN(Dialled answer, understood<Dialled>(text));
  return std::move(answer.results);
}

}  // namespace collctl::launcher
