#include "launcher/hosts/grammar.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "base/format.h"
#include "base/split.h"
#include "launcher/hosts/ranges.h"

namespace collctl::launcher {
namespace {

constexpr size_t kMostName = 255;
constexpr size_t kShownBefore = 60, kShownAfter = 20;  // of a marked line

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_name_char(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' ||
         c == '_';
}

std::string printable(std::string_view text) {
  std::string shown;
  for (const char c : text) shown += c == '\t' ? ' ' : uint8_t(c) < 0x20 || c == 0x7f ? '?' : c;
  return shown;
}

std::string marked_line(std::string_view text, size_t at) {
  const size_t from = at > kShownBefore ? at - kShownBefore : 0;
  const size_t to = std::min(text.size(), at + kShownAfter);
  const std::string before = from > 0 ? "..." : "", after = to < text.size() ? "..." : "";
  return format("the mark shows the place\n  {}{}{}\n  {}^", before,
                printable(text.substr(from, to - from)), after,
                std::string(before.size() + at - from, ' '));
}

std::optional<std::string> ipv6_address(const std::string& text) {
  const size_t percent = std::min(text.find('%'), text.size());
  const std::string zone = text.substr(percent);
  in6_addr address{};
  if (inet_pton(AF_INET6, text.substr(0, percent).c_str(), &address) != 1) return std::nullopt;
  if (!zone.empty() && (zone.size() < 2 || zone.size() > 32 ||
                        !std::all_of(zone.begin() + 1, zone.end(), is_name_char)))
    return std::nullopt;
  char canonical[INET6_ADDRSTRLEN] = {};
  inet_ntop(AF_INET6, &address, canonical, sizeof canonical);
  return canonical + zone;
}

// As ssh has it: nothing that a shell or an option parser could take for something else.
bool is_user(std::string_view user) {
  if (user.empty() || user.size() > kMostName || user[0] == '-' || user.back() == '\\')
    return false;
  return std::all_of(user.begin(), user.end(), [](char c) {
    return uint8_t(c) > 0x20 && c != 0x7f && std::strchr("'`\";&<>|(){}#,[]:", c) == nullptr;
  });
}

bool is_plain_host(std::string_view host) {
  if (host.empty() || host.size() > kMostName || host[0] == '-' || host[0] == '.') return false;
  return std::all_of(host.begin(), host.end(), is_name_char);
}

// [user@]host[:port], the host a name, an IPv4 address or an IPv6 address in brackets.
bool is_jump(std::string_view text) {
  if (const size_t at = text.rfind('@'); at != std::string_view::npos) {
    if (!is_user(text.substr(0, at))) return false;
    text.remove_prefix(at + 1);
  }
  size_t end = text.find(':');
  if (!text.empty() && text[0] == '[') {
    end = text.find(']');
    if (end == std::string_view::npos || !ipv6_address(std::string(text.substr(1, end - 1))))
      return false;
    ++end;
  } else {
    end = std::min(end, text.size());
    if (!is_plain_host(text.substr(0, end))) return false;
  }
  if (end == text.size()) return true;
  return text[end] == ':' && whole_number(text.substr(end + 1), 1, 65535).has_value();
}

bool read_devices(const std::string& value, HostSpec& spec) {
  spec.device_list.clear();
  spec.devices = value == "all"    ? HostSpec::Devices::all
                 : value == "none" ? HostSpec::Devices::none
                                   : HostSpec::Devices::listed;
  if (spec.devices != HostSpec::Devices::listed) return true;
  for (const std::string_view each : base::split(value, ',')) {
    const auto device = whole_number(each, 0, 1023);
    auto& list = spec.device_list;
    if (!device || std::find(list.begin(), list.end(), *device) != list.end()) return false;
    list.push_back(*device);
  }
  return true;
}

std::string devices_text(const HostSpec& spec) {
  if (spec.devices == HostSpec::Devices::all) return "all";
  if (spec.devices == HostSpec::Devices::none) return "none";
  std::string text;
  for (const int device : spec.device_list) text += format("{}{}", text.empty() ? "" : ",", device);
  return text;
}

bool read_nics(const std::string& value, HostSpec& spec) {
  spec.nics.clear();
  for (const std::string_view nic : base::split(value, ',')) {
    if (nic.empty() || nic.size() > 63 || nic[0] == '-' ||
        !std::all_of(nic.begin(), nic.end(), [](char c) { return is_name_char(c) || c == ':'; }))
      return false;
    if (std::find(spec.nics.begin(), spec.nics.end(), nic) != spec.nics.end()) return false;
    spec.nics.emplace_back(nic);
  }
  return true;
}

std::string nics_text(const HostSpec& spec) {
  std::string text;
  for (const auto& nic : spec.nics) text += (text.empty() ? "" : ",") + nic;
  return text;
}

bool read_address(const std::string& value, HostSpec& spec) {
  in_addr address{};
  spec.address = value;
  if (inet_pton(AF_INET, value.c_str(), &address) == 1) return true;
  const bool brackets = value.size() > 2 && value.front() == '[' && value.back() == ']';
  const auto canonical = ipv6_address(brackets ? value.substr(1, value.size() - 2) : value);
  if (canonical) spec.address = *canonical;
  return canonical.has_value();
}

std::string number_text(int number) {
  return number == 0 ? "" : std::to_string(number);
}

const Attribute kAttributes[] = {
    {"max_slots", "a number 1..65536",
     [](const std::string& value, HostSpec& spec) {
       return (spec.max_slots = whole_number(value, 1, kMostSlots).value_or(0)) != 0;
     },
     [](const HostSpec& spec) { return number_text(spec.max_slots); }},
    {"user", "a user name",
     [](const std::string& value, HostSpec& spec) { return is_user(spec.user = value); },
     [](const HostSpec& spec) { return spec.user; }},
    {"port", "a port 1..65535",
     [](const std::string& value, HostSpec& spec) {
       return (spec.port = whole_number(value, 1, 65535).value_or(0)) != 0;
     },
     [](const HostSpec& spec) { return number_text(spec.port); }},
    {"key", "a file",
     [](const std::string& value, HostSpec& spec) { return !(spec.key = value).empty(); },
     [](const HostSpec& spec) { return spec.key; }},
    {"jump", "one [user@]host[:port]",
     [](const std::string& value, HostSpec& spec) { return is_jump(spec.jump = value); },
     [](const HostSpec& spec) { return spec.jump; }},
    {"addr", "an IPv4 or IPv6 address", read_address,
     [](const HostSpec& spec) { return spec.address; }},
    {"devices", "0,1,2, all or none", read_devices, devices_text},
    {"nics", "names of interfaces, comma separated", read_nics, nics_text},
    {"rack", "a name",
     [](const std::string& value, HostSpec& spec) { return !(spec.rack = value).empty(); },
     [](const HostSpec& spec) { return spec.rack; }},
    {"path", "a path",
     [](const std::string& value, HostSpec& spec) {
       return !(spec.path = value).empty() && value[0] != '-';
     },
     [](const HostSpec& spec) { return spec.path; }},
};

// Other launchers' words for ours, and their words that mean nothing here.
struct Synonym {
  const char* theirs;
  const char* ours;
};
constexpr Synonym kSynonyms[] = {{"count", "slots"},         {"max-slots", "max_slots"},
                                 {"slots_max", "max_slots"}, {"slots-max", "max_slots"},
                                 {"username", "user"},       {"user_name", "user"},
                                 {"user-name", "user"}};
constexpr const char* kIgnored[] = {"ifhn",   "binding",           "ifname",
                                    "boards", "sockets",           "cores",
                                    "cpus",   "sockets_per_board", "cores_per_socket"};

struct OptionWord {
  size_t at = 0, value_at = 0, end = 0;
  std::string name, value;
};

Result<OptionWord> parse_option(const SourceLine& line, size_t at) {
  const std::string_view text = line.text;
  OptionWord word;
  word.at = at;
  size_t end = at;
  while (end < text.size() && is_name_char(text[end])) ++end;
  word.name = text.substr(at, end - at);
  // Open MPI writes blanks around the sign, too.
  const size_t sign = skip_blanks(text, end);
  if (word.name.empty() || sign >= text.size() || text[sign] != '=')
    return line.expected(at, "option=value or the end of the line");
  word.value_at = skip_blanks(text, sign + 1);
  if (word.value_at < text.size() && text[word.value_at] == '"') {
    const size_t quote = text.find('"', word.value_at + 1);
    if (quote == std::string_view::npos) return line.expected(text.size(), "'\"'");
    word.value = text.substr(word.value_at + 1, quote - word.value_at - 1);
    word.end = quote + 1;
    if (word.end < text.size() && !is_blank(text[word.end]))
      return line.expected(word.end, "a blank");
    return word;
  }
  word.end = word_end(text, word.value_at, false);
  word.value = text.substr(word.value_at, word.end - word.value_at);
  if (const size_t quote = word.value.find('"'); quote != std::string::npos)
    return line.expected(word.value_at + quote, "a value without quotes inside");
  return word;
}

Status set_option(const SourceLine& line, const OptionWord& word, HostSpec& spec) {
  const auto twice = [&](const std::string& name) {
    return line.mistake(word.at, format("{}= is given twice", name));
  };
  if (word.name == "slots") {
    if (spec.slots) return twice("slots");
    spec.slots = whole_number(word.value, 1, kMostSlots);
    return spec.slots ? Status() : line.expected(word.value_at, "a number 1..65536");
  }
  std::string names = "slots";
  for (const Attribute& attribute : attributes()) {
    names += format(", {}", attribute.name);
    if (word.name != attribute.name) continue;
    if (!attribute.text(spec).empty()) return twice(word.name);
    if (attribute.read(word.value, spec)) return {};
    return line.expected(word.value_at, attribute.expected);
  }
  return line.expected(word.at, "one of the options " + names);
}

}  // namespace

std::string SourceLine::where(size_t at) const {
  return format("{}:{}:{}", file, number, at + 1);
}

Error SourceLine::mistake(size_t at, const std::string& sentence) const {
  return {ErrorCode::usage, format("{}: {}", where(at), sentence), marked_line(text, at)};
}

Error SourceLine::expected(size_t at, const std::string& what) const {
  constexpr size_t kShown = 40;
  std::string got = "the end";
  if (at < text.size()) {
    const size_t end = std::max(word_end(text, at, false), at + 1);
    got = format("'{}{}'", printable(text.substr(at, std::min(end - at, kShown))),
                 end - at > kShown ? "..." : "");
  }
  return mistake(at, format("expected {}, got {}", what, got));
}

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

size_t skip_blanks(std::string_view text, size_t at) {
  while (at < text.size() && is_blank(text[at])) ++at;
  return at;
}

size_t word_end(std::string_view text, size_t at, bool commas) {
  bool inside = false;
  for (; at < text.size() && !is_blank(text[at]); ++at) {
    if (text[at] == '[') inside = true;
    if (text[at] == ']') inside = false;
    if (commas && !inside && text[at] == ',') break;
  }
  return at;
}

std::optional<int> whole_number(std::string_view digits, int least, int most) {
  if (digits.empty() || digits.size() > 9 || !std::all_of(digits.begin(), digits.end(), is_digit))
    return std::nullopt;
  int value = 0;
  for (const char c : digits) value = value * 10 + (c - '0');
  return value >= least && value <= most ? std::optional(value) : std::nullopt;
}

bool is_group_name(std::string_view name) {
  return !name.empty() && name.size() <= kMostName &&
         std::all_of(name.begin(), name.end(), is_name_char);
}

std::span<const Attribute> attributes() {
  return kAttributes;
}

namespace {

// The name's own text, [from, to): its characters, its length, its ranges.
Result<std::vector<std::string>> expand_name(const SourceLine& line, size_t from, size_t to) {
  const std::string_view text = line.text;
  size_t plain = 0;
  bool inside = false;
  for (size_t at = from; at < to; ++at) {
    const char c = text[at];
    if (c == '[') inside = true;
    const bool legal = is_name_char(c) || c == '[' || c == ']';
    if (!inside && (!legal || (at == from && (c == '-' || c == '.'))))
      return line.expected(at, at == from ? "a host name" : "letters, digits, '.', '-' or '_'");
    if (!inside && ++plain > kMostName)
      return line.expected(from, format("a name of at most {} characters", kMostName));
    if (c == ']') inside = false;
  }
  if (text.substr(from, to - from) == "include")
    return line.mistake(from, "expected a host name; include is a hostfile keyword");
  ExpandedNames expanded = expand_ranges(text.substr(from, to - from), kMostHosts);
  if (!expanded.ok()) return line.expected(from + expanded.at, expanded.expected);
  for (const std::string& name : expanded.names)
    if (!is_plain_host(name))
      return line.expected(from, format("a name of at most {} characters", kMostName));
  return std::move(expanded.names);
}

// Where the name that begins at `at` ends: at the ':' of the slots, or at `to`.
Result<size_t> name_end(const SourceLine& line, size_t at, size_t to) {
  size_t colon = to;
  bool inside = false;
  for (size_t i = at; i < to; ++i) {
    if (line.text[i] == '[') inside = true;
    if (line.text[i] == ']') inside = false;
    if (inside || line.text[i] != ':') continue;
    if (colon != to) return line.expected(at, "brackets around an IPv6 address");
    colon = i;
  }
  return colon;
}

}  // namespace

Result<HostWord> parse_host_word(const SourceLine& line, size_t from, size_t to) {
  const std::string_view text = line.text;
  HostWord word;
  size_t at = from;
  const std::string_view whole = text.substr(from, to - from);
  if (const size_t sign = whole.rfind('@', whole.find('[')); sign != std::string_view::npos) {
    word.user = whole.substr(0, sign);
    if (!is_user(word.user)) return line.expected(from, "a user name before '@'");
    at = from + sign + 1;
  }
  if (at == to) return line.expected(at, "a host name");
  size_t end = 0;
  const size_t close = text.find(']', at);
  const std::string_view bracket =
      text[at] == '[' && close < to ? text.substr(at + 1, close - at - 1) : std::string_view();
  if (std::count(bracket.begin(), bracket.end(), ':') > 1) {
    const auto address = ipv6_address(std::string(bracket));
    if (!address) return line.expected(at + 1, "an IPv6 address");
    word.names = {*address};
    end = close + 1;
    if (end < to && text[end] != ':') return line.expected(end, "':' or a blank");
  } else {
    COLL_ASSIGN(end, name_end(line, at, to));
    COLL_ASSIGN(word.names, expand_name(line, at, end));
  }
  if (end == to) return word;
  word.slots = whole_number(text.substr(end + 1, to - end - 1), 1, kMostSlots);
  if (!word.slots) return line.expected(end + 1, "a number of slots 1..65536");
  return word;
}

Status parse_host_options(const SourceLine& line, size_t at, HostSpec& spec,
                          std::vector<IgnoredOption>& ignored) {
  for (at = skip_blanks(line.text, at); at < line.text.size(); at = skip_blanks(line.text, at)) {
    COLL_ASSIGN(OptionWord word, parse_option(line, at));
    at = word.end;
    for (const Synonym& synonym : kSynonyms)
      if (word.name == synonym.theirs) word.name = synonym.ours;
    // Hydra's name or address of the interface; names are resolved by each host for itself.
    if (HostSpec tried; word.name == "ifhn" && read_address(word.value, tried)) word.name = "addr";
    if (std::find(std::begin(kIgnored), std::end(kIgnored), word.name) != std::end(kIgnored))
      ignored.push_back({word.name, word.at});
    else
      COLL_TRY(set_option(line, word, spec));
  }
  if (spec.slots && spec.max_slots != 0 && *spec.slots > spec.max_slots)
    return line.mistake(0,
                        format("{} slots are more than max_slots={}", *spec.slots, spec.max_slots));
  return {};
}

}  // namespace collctl::launcher
