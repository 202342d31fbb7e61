#include "cmd/measure/nccl_log.h"

#include <algorithm>
#include <charconv>

#include "base/format.h"
#include "base/printable.h"
#include "base/whole_number.h"

namespace collctl::cmd {
namespace {

// By their numbers, as versions before 2.23 have them.
constexpr const char* kAlgorithms[] = {"Tree",     "Ring", "CollNetDirect", "CollNetChain", "NVLS",
                                       "NVLSTree", "PAT"};
constexpr const char* kProtocols[] = {"LL", "LL128", "Simple"};

// A line's words from some place on.
class WordsOf {
 public:
  explicit WordsOf(std::string_view text) : text_(text) {}
  bool take(std::string_view word) {
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  template <class T>
  bool take_number(T& number) {
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), number);
    if (error != std::errc()) return false;
    text_.remove_prefix(size_t(end - text_.data()));
    return true;
  }
  // Up to the next blank.
  std::string_view take_word() {
    const size_t end = std::min(text_.find(' '), text_.size());
    const std::string_view word = text_.substr(0, end);
    text_.remove_prefix(end);
    return word;
  }
  std::string_view rest() const { return text_; }

 private:
  std::string_view text_;
};

std::string kept(std::string_view text) {
  return kept_text(text, kMostNcclLine);
}

// Behind "host:pid:tid [gpu] NCCL INFO "; empty: no such line.
std::string_view said(std::string_view line, std::string_view mark) {
  const size_t at = line.find(mark);
  return at == std::string_view::npos ? std::string_view() : line.substr(at + mark.size());
}

template <size_t N>
std::string name_of_number(std::string_view word, const char* const (&names)[N]) {
  const size_t number = base::whole_number<size_t>(word).value_or(N);
  return number < N ? names[number] : kept(word);
}

// "AllReduce: 1024 Bytes -> Algo Ring proto LL channel{Lo..Hi}={0..3}", earlier "1024 Bytes -> Algo
// 1 proto 0 time 12.3".
bool take_choice(std::string_view line, NcclLog& log) {
  const size_t at = line.find(" Bytes -> Algo ");
  if (at == std::string_view::npos) return false;
  const std::string_view before = line.substr(0, at);
  const size_t colon = before.rfind(": ");
  NcclChoice choice;
  WordsOf number(colon == std::string_view::npos ? before : before.substr(colon + 2));
  if (colon != std::string_view::npos) choice.function = kept(before.substr(0, colon));
  if (!number.take_number(choice.bytes) || !number.rest().empty()) return false;
  WordsOf words(line.substr(at + std::string_view(" Bytes -> Algo ").size()));
  choice.algorithm = name_of_number(words.take_word(), kAlgorithms);
  if (!words.take(" proto ")) return false;
  choice.protocol = name_of_number(words.take_word(), kProtocols);
  int low = 0, high = 0;
  if (words.take(" channel{Lo..Hi}={") && words.take_number(low) && words.take("..") &&
      words.take_number(high) && low >= 0 && high >= low && high < kMostNcclChannels)
    choice.channels = high - low + 1;
  const auto known = std::ranges::find_if(log.choices, [&](const NcclChoice& one) {
    return one.function == choice.function && one.bytes == choice.bytes;
  });
  if (known != log.choices.end())
    *known = std::move(choice);
  else if (log.choices.size() < kMostNcclChoices)
    log.choices.push_back(std::move(choice));
  return true;
}

// "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"
void take_way(std::string_view line, NcclLog& log) {
  const std::string_view via = said(line, " via ");
  if (via.empty()) {
    // "Channel 00/24 : 0 1 2 3": rank 0 tells its rings.
    const std::string_view ring = said(line, " : ");
    if (log.ring.empty() && !ring.empty() &&
        ring.find_first_not_of("0123456789 ") == std::string_view::npos)
      log.ring = kept(ring.substr(std::min(ring.find_first_not_of(' '), ring.size())));
    return;
  }
  const std::string name = kept(
      via.substr(0, via.find(' ') == std::string_view::npos || via.starts_with("P2P/direct pointer")
                        ? via.size()
                        : via.find(' ')));
  const auto known = std::ranges::find(log.ways, name, &NcclWay::via);
  if (known != log.ways.end())
    ++known->channels;
  else if (log.ways.size() < kMostNcclEntries)
    log.ways.push_back({name, 1, kept(line)});
}

// "24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels, 2 p2p channels per
// peer"
void take_channels(std::string_view line, NcclLog& log) {
  const auto number_before = [&](std::string_view what) {
    const size_t at = line.find(what);
    if (at == std::string_view::npos) return 0;
    const size_t blank = line.substr(0, at).rfind(' ');
    int number = 0;
    WordsOf words(line.substr(blank == std::string_view::npos ? 0 : blank + 1));
    return words.take_number(number) && number >= 0 && number < kMostNcclChannels ? number : 0;
  };
  log.channels = number_before(" coll channels");
  log.nvls_channels = number_before(" nvls channels");
  log.p2p_channels = number_before(" p2p channels,");
}

void take_info(std::string_view line, NcclLog& log) {
  WordsOf words(line);
  if (take_choice(line, log)) return;
  if (words.take("NCCL version ")) {
    log.version = kept(words.rest());
  } else if (words.take("Using network ")) {
    log.network = kept(words.rest());
    log.network_line = kept(line);
  } else if (line.starts_with("Channel ")) {
    take_way(line, log);
  } else if (line.find(" coll channels, ") != std::string_view::npos) {
    take_channels(line, log);
  } else if (line.starts_with("Trees ")) {
    if (log.trees.empty()) log.trees = kept(line.substr(6));
  } else if (line.starts_with("NET/") && line.find(" : Using ") != std::string_view::npos) {
    log.devices_line = kept(line);
  } else if (words.take("TUNER/Plugin: Using ")) {
    words.take("tuner plugin ");
    if (!words.rest().starts_with("internal")) log.tuner = kept(words.rest());
  } else if (line.find("GPU Direct RDMA Disabled") != std::string_view::npos &&
             !line.starts_with("NET/Socket")) {
    if (log.no_gdr_line.empty()) log.no_gdr_line = kept(line);
  }
}

}  // namespace

std::string kept_text(std::string_view text, size_t most) {
  constexpr size_t kLongest = 8;  // that a character becomes
  std::string printed = base::printable(text.substr(0, most));
  if (printed.size() > most) printed = base::printable(text.substr(0, most / kLongest));
  return printed;
}

NcclLog read_nccl_log(std::string_view text, bool cut) {
  NcclLog log;
  log.cut = cut || text.size() > kMostNcclLog;
  text = text.substr(0, kMostNcclLog);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (const auto info = said(line, "NCCL INFO "); !info.empty())
      take_info(info, log);
    else if (const auto warning = said(line, "NCCL WARN "); !warning.empty()) {
      if (log.warnings.size() < kMostNcclEntries) log.warnings.push_back(kept(warning));
    } else if (const auto version = said(line, "NCCL version "); !version.empty())
      log.version = kept(version);
  }
  return log;
}

bool NcclLog::crosses_hosts() const {
  return std::ranges::any_of(ways, [](const NcclWay& way) { return way.via.starts_with("NET/"); });
}

const NcclWay* NcclLog::no_gdr() const {
  const auto at = std::ranges::find_if(ways, [](const NcclWay& way) {
    return way.via.starts_with("NET/") && !way.via.starts_with("NET/Socket") &&
           way.via.find("/GDRDMA") == std::string::npos;
  });
  return at == ways.end() ? nullptr : &*at;
}

void fields(Record& io, NcclChoice& choice) {
  io.field("function", choice.function, kMostNcclLine);
  io.field("bytes", choice.bytes);
  io.field("algorithm", choice.algorithm, kMostNcclLine);
  io.field("protocol", choice.protocol, kMostNcclLine);
  io.field("channels", choice.channels, 0, kMostNcclChannels);
}

void fields(Record& io, NcclWay& way) {
  io.field("via", way.via, kMostNcclLine);
  io.field("channels", way.channels);
  io.field("line", way.line, kMostNcclLine);
}

void fields(Record& io, NcclLog& log) {
  io.field("version", log.version, kMostNcclLine);
  io.field("network", log.network, kMostNcclLine);
  io.field("network_line", log.network_line, kMostNcclLine);
  io.field("devices_line", log.devices_line, kMostNcclLine);
  io.field("tuner", log.tuner, kMostNcclLine);
  io.field("channels", log.channels, 0, kMostNcclChannels);
  io.field("nvls_channels", log.nvls_channels, 0, kMostNcclChannels);
  io.field("p2p_channels", log.p2p_channels, 0, kMostNcclChannels);
  io.field("ring", log.ring, kMostNcclLine);
  io.field("trees", log.trees, kMostNcclLine);
  io.field("ways", log.ways, kMostNcclEntries);
  io.field("no_gdr_line", log.no_gdr_line, kMostNcclLine);
  io.field("choices", log.choices, kMostNcclChoices);
  io.field("warnings", log.warnings, kMostNcclEntries, kMostNcclLine);
  io.field("cut", log.cut);
}

}  // namespace collctl::cmd
