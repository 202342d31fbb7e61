#include "launcher/remote/probe_service.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/format.h"

namespace collctl::launcher {
namespace {

using nlohmann::json;

constexpr double kMostListenSeconds = 120, kMostDialSeconds = 10;
constexpr size_t kMostAddresses = 256, kMostTargets = 8192;

std::string hex(const base::Secret& secret) {
  std::string text;
  for (const uint8_t byte : secret.bytes) text += format("{:02x}", int(byte));
  return text;
}

Result<base::Secret> from_hex(const std::string& text) {
  base::Secret secret;
  if (text.size() != 2 * secret.bytes.size() ||
      text.find_first_not_of("0123456789abcdef") != std::string::npos)
    return Error(ErrorCode::usage, "reach: expected a secret");
  for (size_t i = 0; i < secret.bytes.size(); ++i)
    secret.bytes[i] = uint8_t(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return secret;
}

std::string dumped(const json& j) {
  return j.dump(-1, ' ', false, json::error_handler_t::replace);
}

Error unreadable(const json::exception& e) {
  return {ErrorCode::launch, format("reach: malformed answer from the other side: {}", e.what()),
          "is the same version of collctl there? --stage always copies this one"};
}

ReachEnd end_from(const std::string& word) {
  for (int end = 0; end < int(ReachEnd::failed); ++end)
    if (word == reach_word(ReachEnd(end))) return ReachEnd(end);
  return ReachEnd::failed;
}

Result<std::vector<ReachTarget>> targets_from(const json& list) {
  std::vector<ReachTarget> targets;
  if (list.size() > kMostTargets) return Error(ErrorCode::usage, "reach: too many targets");
  for (const json& j : list) {
    ReachTarget& target = targets.emplace_back();
    target.host = j.at("host");
    target.address = j.at("address");
    target.port = j.at("port");
    COLL_ASSIGN(target.secret, from_hex(j.at("secret")));
  }
  return targets;
}

json addresses_json(const std::vector<ReachAddress>& addresses) {
  json list = json::array();
  for (const ReachAddress& at : addresses)
    list.push_back({{"address", at.address}, {"port", at.port}, {"error", at.error}});
  return list;
}

json results_json(const std::vector<ReachResult>& results) {
  json list = json::array();
  for (const ReachResult& result : results)
    list.push_back({{"host", result.host},
                    {"address", result.address},
                    {"end", reach_word(result.end)},
                    {"round_trip_us", result.round_trip_us},
                    {"text", result.text}});
  return list;
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
  try {
    return reach(argument);
  } catch (const json::exception& e) {
    return unreadable(e);
  }
}

Result<std::string> ProbeService::reach(const std::string& argument) {
  const json j = json::parse(argument);
  const std::string verb = j.at("do");
  if (verb == "listen") {
    const auto addresses = j.at("addresses").get<std::vector<std::string>>();
    if (addresses.size() > kMostAddresses)
      return Error(ErrorCode::usage, "reach: too many addresses");
    COLL_ASSIGN(const base::Secret secret, from_hex(j.at("secret")));
    const double seconds = std::min(j.at("seconds").get<double>(), kMostListenSeconds);
    COLL_ASSIGN(listener_, ReachListener::start(addresses, secret, seconds));
    return dumped(addresses_json(listener_->addresses()));
  }
  if (verb == "dial") {
    COLL_ASSIGN(const auto targets, targets_from(j.at("targets")));
    const double seconds = std::min(j.at("seconds").get<double>(), kMostDialSeconds);
    return dumped(results_json(dial_targets(targets, Deadline::after_seconds(seconds))));
  }
  if (verb != "close")
    return Error(ErrorCode::usage, format("reach '{}': expected listen, dial or close", verb));
  listener_.reset();
  return std::string("[]");
}

std::string listen_question(const std::vector<std::string>& addresses, const base::Secret& secret,
                            double seconds) {
  return dumped(
      {{"do", "listen"}, {"addresses", addresses}, {"secret", hex(secret)}, {"seconds", seconds}});
}

std::string dial_question(const std::vector<ReachTarget>& targets, double seconds) {
  json list = json::array();
  for (const ReachTarget& target : targets)
    list.push_back({{"host", target.host},
                    {"address", target.address},
                    {"port", target.port},
                    {"secret", hex(target.secret)}});
  return dumped({{"do", "dial"}, {"targets", std::move(list)}, {"seconds", seconds}});
}

std::string close_question() {
  return R"({"do":"close"})";
}

Result<std::vector<ReachAddress>> listen_answer(const std::string& text) {
  try {
    std::vector<ReachAddress> addresses;
    for (const json& j : json::parse(text))
      addresses.push_back({j.at("address"), j.at("port"), j.at("error")});
    return addresses;
  } catch (const json::exception& e) {
    return unreadable(e);
  }
}

Result<std::vector<ReachResult>> dial_answer(const std::string& text) {
  try {
    std::vector<ReachResult> results;
    for (const json& j : json::parse(text))
      results.push_back({j.at("host"), j.at("address"), end_from(j.at("end")),
                         j.at("round_trip_us"), j.at("text")});
    return results;
  } catch (const json::exception& e) {
    return unreadable(e);
  }
}

}  // namespace collctl::launcher
