#include "launcher/ssh/openssh_log.h"

#include <cerrno>
#include <charconv>

#include "base/format.h"

namespace collctl::launcher {
namespace {

constexpr size_t kMostLogLine = 4096;
constexpr size_t kMostMessages = 64;
constexpr size_t kMostTried = 32;

bool starts(std::string_view text, std::string_view with) {
  return text.substr(0, with.size()) == with;
}

// The text between `before` and `after` (or the end); empty when `before` is not there.
std::string between(std::string_view text, std::string_view before, std::string_view after) {
  const size_t at = text.find(before);
  if (at == std::string_view::npos) return {};
  const size_t from = at + before.size();
  const size_t to = after.empty() ? std::string_view::npos : text.find(after, from);
  return std::string(text.substr(from, to == std::string_view::npos ? to : to - from));
}

std::string upper_type(std::string_view key_type) {
  if (key_type.find("ed25519") != std::string_view::npos) return "ED25519";
  if (key_type.find("ecdsa") != std::string_view::npos) return "ECDSA";
  if (key_type.find("rsa") != std::string_view::npos) return "RSA";
  return std::string(key_type);
}

std::string without_dot(std::string text) {
  while (!text.empty() && (text.back() == '.' || text.back() == ' ')) text.pop_back();
  return text;
}

std::string spaced(const std::string& list) {
  std::string text;
  for (const char c : list) text += c == ',' ? std::string(", ") : std::string(1, c);
  return text;
}

}  // namespace

void OpensshLog::feed(std::string_view bytes) {
  for (const char c : bytes) {
    if (c == '\r') continue;
    if (c == '\n') {
      line(rest_);
      rest_.clear();
    } else if (rest_.size() < kMostLogLine) {
      rest_ += c;
    }
  }
}

void OpensshLog::debug(std::string_view text) {
  if (starts(text, "Connecting to ")) {
    stage_ = Stage::tcp;
    const std::string host = between(text, "[", "]");
    const std::string port = without_dot(between(text, "] port ", ""));
    const bool v6 = host.find(':') != std::string::npos;
    address_ = v6 ? format("[{}]:{}", host, port) : format("{}:{}", host, port);
  } else if (starts(text, "Connection established") || starts(text, "Executing proxy command")) {
    stage_ = Stage::banner;
  } else if (starts(text, "Remote protocol version")) {
    stage_ = Stage::key_exchange;
  } else if (starts(text, "Server host key: ")) {
    stage_ = Stage::host_key;
    key_.type = upper_type(between(text, "Server host key: ", " "));
    key_.fingerprint = "SHA256:" + between(text, "SHA256:", " ");
  } else if (starts(text, "SSH2_MSG_SERVICE_ACCEPT")) {
    stage_ = Stage::authentication;
  } else if (starts(text, "Offering public key: ")) {
    const std::string key = between(text, "Offering public key: ", " SHA256:");
    if (tried_.size() < kMostTried) tried_.push_back("key " + key);
  } else if (starts(text, "Server accepts key: ")) {
    accepted_key_ = between(text, "Server accepts key: ", " ");
  } else if (starts(text, "Authentications that can continue: ")) {
    offered_methods_ = between(text, ": ", "");
  } else if (starts(text, "Next authentication method: ")) {
    const std::string method = between(text, ": ", "");
    if (method != "publickey" && tried_.size() < kMostTried) tried_.push_back(method);
  } else if (text.find("rtype exit-status") != std::string_view::npos ||
             text.find("rtype exit-signal") != std::string_view::npos) {
    command_ended_ = true;
  }
}

void OpensshLog::line(std::string_view text) {
  if (starts(text, "debug")) {
    const size_t at = text.find(": ");
    if (at != std::string_view::npos) debug(text.substr(at + 2));
    return;
  }
  if (starts(text, "Authenticated to ")) {
    stage_ = Stage::command;
    method_ = between(text, "using \"", "\"");
    return;
  }
  if (text.empty() || starts(text, "Transferred: ") || starts(text, "Bytes per second: ")) return;
  if (messages_.size() >= kMostMessages) messages_.erase(messages_.begin());
  messages_.emplace_back(text);
}

const std::string* OpensshLog::find(std::string_view part) const {
  for (const std::string& message : messages_)
    if (message.find(part) != std::string::npos) return &message;
  return nullptr;
}

std::string OpensshLog::authenticated_by() const {
  if (method_.empty()) return {};
  return accepted_key_.empty() ? method_ : "key " + accepted_key_;
}

std::string OpensshLog::last_words() const {
  return messages_.empty() ? "ssh ended without a message" : without_dot(messages_.back());
}

std::optional<Error> OpensshLog::host_key_cause(const Question& q) const {
  if (find("REVOKED HOST KEY")) return revoked_host_key(q.host, key_, "known_hosts");
  if (find("IDENTIFICATION HAS CHANGED")) {
    HostKeyName known;
    std::string where = "known_hosts";
    if (const std::string* offending = find("Offending ")) {
      known.type = between(*offending, "Offending ", " key");
      where = between(*offending, " key in ", "");
      known.fingerprint = q.fingerprint_at != nullptr ? q.fingerprint_at(where) : "";
    }
    if (known.fingerprint.empty()) known.fingerprint = "(cannot be read)";
    std::string entry = q.host;
    if (const std::string* remove = find("ssh-keygen -f")) entry = between(*remove, "-R \"", "\"");
    return changed_host_key(q.host, key_, known, where, entry);
  }
  if (const std::string* unknown = find("host key is known for ")) {
    const std::string entry = between(*unknown, "host key is known for ", " and you");
    return unknown_host_key(q.host, key_, "~/.ssh/known_hosts", entry, q.port);
  }
  return std::nullopt;
}

std::optional<Error> OpensshLog::network_cause(const Question& q) const {
  if (const std::string* m = find("Could not resolve hostname ")) {
    const std::string name = between(*m, "resolve hostname ", ":");
    return no_such_name(q.host, name, between(*m, name + ": ", ""));
  }
  if (find("during banner exchange")) return timed_out(q.host, address_, Stage::banner, q.seconds);
  if (const std::string* m = find(": connect to ")) {
    if (m->find("timed out") != std::string::npos)
      return timed_out(q.host, address_, Stage::tcp, q.seconds);
    const int number = m->find("refused") != std::string::npos            ? ECONNREFUSED
                       : m->find("No route to host") != std::string::npos ? EHOSTUNREACH
                       : m->find("is unreachable") != std::string::npos   ? ENETUNREACH
                                                                          : 0;
    if (number != 0) return not_connected(q.host, address_, number);
  }
  if (const std::string* m = find("Unable to negotiate with"))
    return no_common_algorithm(q.host, between(*m, "no matching ", " found"), "",
                               spaced(between(*m, "Their offer: ", "")));
  if (const std::string* m = find("kex_exchange_identification: "))
    return connection_closed(q.host, address_, Stage::banner,
                             without_dot(between(*m, "identification: ", "")));
  return std::nullopt;
}

std::optional<Error> OpensshLog::other_cause(const Question& q) const {
  for (const char* words : {"Bad configuration option", "Can't open user config file",
                            "Bad owner or permissions on", "terminating, "})
    if (const std::string* m = find(words)) {
      Error e(ErrorCode::usage, q.host + ": the SSH configuration: " + *m,
              "correct the file, or give another with --ssh-config");
      e.host = q.host;
      return e;
    }
  if (find("Permission denied (") || find("Too many authentication failures")) {
    Denial denial;
    denial.user = q.user;
    denial.tried = tried_;
    for (const std::string& m : messages_)
      if (starts(m, "Load key ")) denial.notes.push_back(m);
    denial.offered = spaced(offered_methods_);
    return denied(q.host, denial);
  }
  return std::nullopt;
}

Error OpensshLog::explain(const Question& q) const {
  if (auto e = host_key_cause(q)) return *e;
  if (auto e = network_cause(q)) return *e;
  if (auto e = other_cause(q)) return *e;
  if (stage_ >= Stage::banner &&
      find("onnection"))  // "Connection closed by", "Connection reset by"
    return connection_closed(q.host, address_, stage_, last_words());
  Error e(ErrorCode::launch, q.host + ": ssh failed: " + last_words(), "try: ssh -v " + q.host);
  e.host = q.host;
  return e;
}

}  // namespace collctl::launcher
