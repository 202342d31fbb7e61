#include "launcher/hosts/hostfile.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/format.h"
#include "launcher/hosts/grammar.h"
#include "launcher/hosts/table.h"

namespace collctl::launcher {
namespace {

constexpr size_t kMostLine = 1 << 17;
constexpr size_t kMostMentions = 1'000'000;  // of hosts, groups taken apart
constexpr size_t kMostFiles = 1000;
constexpr size_t kMostDepth = 16;

struct Exclusion {
  std::string where;
  bool matches = false;
};

struct NamedHosts {
  std::vector<HostSpec> members;
  std::string where;
};

class Reader {
 public:
  explicit Reader(const ReadFile& read) : read_(read) {}
  // `from`: the line that includes it, or null.
  Status file(const std::string& path, const SourceLine* from, size_t at);
  Status option(const std::string& value);
  // -H over the hosts of the file.
  Status pick(const std::string& value, const std::string& hostfile);
  HostList finish();
  bool excludes() const { return !excluded_.empty(); }
  // The first mistake of the hostfile, with the others in its hint.
  Status mistakes() const;

 private:
  void text(const std::string& path, const std::string& name, const std::string& content);
  Status line(const SourceLine& line, const std::string& path);
  Status include(const SourceLine& line, size_t at, const std::string& path);
  Status define(const SourceLine& line, size_t at, size_t sign);
  Status exclude(const SourceLine& line, size_t at, size_t end);
  // One word and the options behind it (none of -H has any).
  Status entry(const SourceLine& line, size_t at, size_t end, bool options);
  Status name_hosts(const SourceLine& line, size_t at, std::vector<HostSpec> hosts,
                    const HostSpec& options);
  // The hosts that a word stands for: hosts, a group, Slurm's list.
  Result<std::vector<HostSpec>> hosts_of(const SourceLine& line, size_t at, size_t end);
  Result<std::vector<HostSpec>> slurm_hosts(const SourceLine& line, size_t at, size_t end);
  void warn(const std::string& kind, const SourceLine& line, size_t at);

  const ReadFile& read_;
  HostTable hosts_, inventory_;
  std::map<std::string, Exclusion> excluded_;
  std::map<std::string, NamedHosts> groups_;
  std::vector<std::string> open_files_;
  size_t files_ = 0, bytes_ = 0, mentions_ = 0;
  std::vector<Error> mistakes_;  // at most kMostMistakes
  struct Warning {
    std::string kind, where;
    size_t count = 0;
  };
  std::vector<Warning> warnings_;
};

// Without the comment: a # at the beginning or after a blank, not within quotes.
std::string_view without_comment(std::string_view text) {
  bool quoted = false;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '"') quoted = !quoted;
    if (!quoted && text[at] == '#' && (at == 0 || is_blank(text[at - 1])))
      return text.substr(0, at);
  }
  return text;
}

size_t trimmed_size(std::string_view text) {
  size_t size = text.size();
  while (size > 0 && is_blank(text[size - 1])) --size;
  return size;
}

// Lines hold text only.
Status check_characters(const SourceLine& line) {
  if (line.text.size() > kMostLine)
    return line.mistake(
        0, format("expected lines of at most {} bytes, got {}", kMostLine, line.text.size()));
  for (size_t at = 0; at < line.text.size(); ++at)
    if (const auto c = uint8_t(line.text[at]); (c < 0x20 && c != '\t') || c == 0x7f)
      return line.mistake(at, format("expected text, got the byte 0x{:02x}", int(c)));
  return {};
}

void Reader::warn(const std::string& kind, const SourceLine& line, size_t at) {
  for (Warning& warning : warnings_)
    if (warning.kind == kind) {
      ++warning.count;
      return;
    }
  warnings_.push_back({kind, line.where(at), 1});
}

Status Reader::file(const std::string& path, const SourceLine* from, size_t at) {
  const std::string normal = std::filesystem::path(path).lexically_normal().string();
  if (from != nullptr) {
    if (std::find(open_files_.begin(), open_files_.end(), normal) != open_files_.end()) {
      std::string circle;
      for (const auto& open : open_files_) circle += open + " -> ";
      return from->mistake(at, format("files include each other: {}{}", circle, normal));
    }
    if (open_files_.size() >= kMostDepth)
      return from->mistake(at, format("files include each other {} deep", kMostDepth));
    if (files_ >= kMostFiles) return from->mistake(at, format("more than {} files", kMostFiles));
  }
  ++files_;
  auto content = read_(path);
  if (!content.ok() && from != nullptr)
    return from->mistake(at, "cannot be included: " + content.error().message);
  if (!content.ok()) return std::move(content.error());
  bytes_ += content->size();
  if (bytes_ > kMostHostfileBytes)
    return Error(ErrorCode::usage, format("{}: more than {} MiB: this is not a hostfile", path,
                                          kMostHostfileBytes >> 20));
  open_files_.push_back(normal);
  text(path, path == "-" ? "stdin" : path, *content);
  open_files_.pop_back();
  return {};
}

void Reader::text(const std::string& path, const std::string& name, const std::string& content) {
  std::string_view rest = content;
  if (rest.substr(0, 3) == "\xef\xbb\xbf") rest.remove_prefix(3);  // a byte order mark
  for (int number = 1; !rest.empty() && mistakes_.size() < kMostMistakes; ++number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view now = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!now.empty() && now.back() == '\r') now.remove_suffix(1);
    now = without_comment(now);
    const SourceLine source{name, number, now.substr(0, trimmed_size(now))};
    Status read = check_characters(source);
    if (read) read = line(source, path);
    if (!read) mistakes_.push_back(std::move(read.error()));
  }
}

Status Reader::mistakes() const {
  if (mistakes_.empty()) return {};
  Error all = mistakes_.front();
  // The first mistake has explained the mark already.
  for (size_t i = 1; i < mistakes_.size(); ++i) {
    const std::string& hint = mistakes_[i].hint;
    all.hint += format("\n{}\n{}", mistakes_[i].message, hint.substr(hint.find('\n') + 1));
  }
  if (mistakes_.size() == kMostMistakes)
    all.hint += format("\nthe first {} mistakes; what follows was not read", kMostMistakes);
  else if (mistakes_.size() > 1)
    all.hint += format("\n{} mistakes in all", mistakes_.size());
  return all;
}

Status Reader::line(const SourceLine& line, const std::string& path) {
  const std::string_view text = line.text;
  const size_t at = skip_blanks(text, 0);
  if (at == text.size()) return {};
  const size_t end = word_end(text, at, false);
  if (text.substr(at, end - at) == "include") return include(line, skip_blanks(text, end), path);
  if (text[at] == '@') {
    size_t name_end = at + 1;
    while (name_end < text.size() && is_group_name(text.substr(name_end, 1))) ++name_end;
    const size_t sign = skip_blanks(text, name_end);
    if (sign < text.size() && text[sign] == '=') return define(line, at, sign);
  }
  if (text[at] == '!' || text[at] == '^') {
    if (const size_t more = skip_blanks(text, end); more < text.size())
      return line.expected(more, "the end of the line");
    return exclude(line, at + 1, end);
  }
  return entry(line, at, end, true);
}

Status Reader::include(const SourceLine& line, size_t at, const std::string& path) {
  std::string name(line.text.substr(at));
  if (name.size() > 1 && name.front() == '"' && name.back() == '"')
    name = name.substr(1, name.size() - 2);
  if (name.empty() || name == "-") return line.expected(at, "the name of a file");
  const size_t slash = path.rfind('/');
  if (name[0] != '/' && slash != std::string::npos) name = path.substr(0, slash + 1) + name;
  return file(name, &line, at);
}

Status Reader::define(const SourceLine& line, size_t at, size_t sign) {
  const std::string_view text = line.text;
  const std::string name(text.substr(at + 1, text.find_first_of(" \t=", at) - at - 1));
  if (!is_group_name(name)) return line.expected(at + 1, "the name of a group");
  if (const auto known = groups_.find(name); known != groups_.end())
    return line.mistake(at, format("the group @{} was defined at {}", name, known->second.where));
  NamedHosts group{{}, line.where(at)};
  for (size_t word = skip_blanks(text, sign + 1); word < text.size();) {
    const size_t end = word_end(text, word, true);
    auto members = hosts_of(line, word, end);
    if (!members) {
      groups_.emplace(name, NamedHosts{{}, line.where(at)});  // those who take it make no mistake
      return std::move(members.error());
    }
    mentions_ += members->size();
    if (mentions_ > kMostMentions)
      return line.mistake(word, format("more than {} hosts are listed", kMostMentions));
    std::move(members->begin(), members->end(), std::back_inserter(group.members));
    word = skip_blanks(text, end);
    if (word < text.size() && text[word] == ',') word = skip_blanks(text, word + 1);
  }
  if (group.members.empty()) return line.expected(text.size(), "the hosts of the group");
  groups_.emplace(name, std::move(group));
  return {};
}

Status Reader::exclude(const SourceLine& line, size_t at, size_t end) {
  if (at == end) return line.expected(at, "a host to exclude");
  COLL_ASSIGN(const auto hosts, hosts_of(line, at, end));
  for (const HostSpec& host : hosts) {
    if (line.text[at] != '@' && (host.slots || !host.user.empty()))
      return line.expected(at, "a host to exclude by its name alone");
    excluded_.emplace(host.name, Exclusion{line.where(at - 1), false});
  }
  mentions_ += hosts.size();
  if (mentions_ > kMostMentions)
    return line.mistake(at, format("more than {} hosts are listed", kMostMentions));
  return {};
}

Result<std::vector<HostSpec>> Reader::slurm_hosts(const SourceLine& line, size_t at, size_t end) {
  std::vector<HostSpec> hosts;
  if (whole_number(line.text.substr(at, end - at), 0, kMostSlots))
    return line.expected(at,
                         "Slurm's list of hosts (slots of a host with this name: slurm slots=N)");
  for (;;) {
    const size_t comma = std::min(word_end(line.text, at, true), end);
    COLL_ASSIGN(const HostWord word, parse_host_word(line, at, comma));
    if (word.slots || !word.user.empty()) return line.expected(at, "the plain name of a host");
    for (const auto& name : word.names) hosts.emplace_back().name = name;
    if (comma == end) return hosts;
    at = comma + 1;
  }
}

Result<std::vector<HostSpec>> Reader::hosts_of(const SourceLine& line, size_t at, size_t end) {
  const std::string_view word = line.text.substr(at, end - at);
  if (word.substr(0, 6) == "slurm:") return slurm_hosts(line, at + 6, end);
  if (!word.empty() && word[0] == '@') {
    const auto group = groups_.find(std::string(word.substr(1)));
    if (group == groups_.end()) return line.expected(at, "a group that was defined before");
    return group->second.members;
  }
  COLL_ASSIGN(const HostWord parsed, parse_host_word(line, at, end));
  std::vector<HostSpec> hosts(parsed.names.size());
  for (size_t i = 0; i < hosts.size(); ++i) {
    hosts[i].name = parsed.names[i];
    hosts[i].user = parsed.user;
    hosts[i].slots = parsed.slots;
  }
  return hosts;
}

Status Reader::entry(const SourceLine& line, size_t at, size_t end, bool options) {
  if (line.text[at] == '+') {
    warn("relative hosts (+n0, +e)", line, at);
    return {};
  }
  COLL_ASSIGN(auto hosts, hosts_of(line, at, end));
  HostSpec said;
  std::vector<IgnoredOption> ignored;
  if (options) COLL_TRY(parse_host_options(line, end, said, ignored));
  for (const IgnoredOption& option : ignored) warn(option.name + "=", line, option.at);
  return name_hosts(line, at, std::move(hosts), said);
}

Status Reader::name_hosts(const SourceLine& line, size_t at, std::vector<HostSpec> hosts,
                          const HostSpec& options) {
  if (hosts.size() > 1 && !options.address.empty())
    return line.mistake(
        at, format("addr= is the address of one host, but {} are listed here", hosts.size()));
  mentions_ += hosts.size();
  if (mentions_ > kMostMentions)
    return line.mistake(at, format("more than {} hosts are listed", kMostMentions));
  hosts_.begin_entry(line, at);
  for (HostSpec& host : hosts) {
    HostSpec spec = options;
    spec.name = std::move(host.name);
    if (host.slots && options.slots)
      return line.mistake(at, format("{} has both {} slots in its name and slots={}", spec.name,
                                     *host.slots, *options.slots));
    if (!host.user.empty() && !options.user.empty() && host.user != options.user)
      return line.mistake(at, format("{} has both the user {} before its name and user={}",
                                     spec.name, host.user, options.user));
    if (host.slots) spec.slots = host.slots;
    if (!host.user.empty()) spec.user = host.user;
    COLL_TRY(hosts_.add(line, at, spec));
  }
  return {};
}

Status Reader::option(const std::string& value) {
  const SourceLine line{"-H", 1, value};
  COLL_TRY(check_characters(line));
  for (size_t at = skip_blanks(value, 0);; at = skip_blanks(value, at + 1)) {
    const size_t end = word_end(value, at, true);
    if (at == end) return line.expected(at, "a host");
    if (value[at] == '!' || value[at] == '^')
      COLL_TRY(exclude(line, at + 1, end));
    else
      COLL_TRY(entry(line, at, end, false));
    at = skip_blanks(value, end);
    if (at == value.size()) return {};
    if (value[at] != ',') return line.expected(at, "',' or the end");
  }
}

Status Reader::pick(const std::string& value, const std::string& hostfile) {
  std::swap(hosts_, inventory_);
  COLL_TRY(option(value));
  if (!hosts_.empty()) return hosts_.pick_from(inventory_, hostfile);
  std::swap(hosts_, inventory_);  // exclusions only: all the others
  return {};
}

HostList Reader::finish() {
  HostList list;
  for (const HostTable* hosts : {&hosts_, &inventory_})
    for (auto& [name, exclusion] : excluded_)
      exclusion.matches = exclusion.matches || hosts->contains(name);
  for (HostSpec& host : hosts_.take())
    if (excluded_.count(host.name) == 0) {
      host.id = HostId(int32_t(list.hosts.size()));
      list.hosts.push_back(std::move(host));
    }
  for (const Warning& warning : warnings_)
    list.warnings.push_back(format("{}: {} has no effect here, ignored{}", warning.where,
                                   warning.kind,
                                   warning.count > 1 ? format(" ({} times)", warning.count) : ""));
  size_t strangers = 0;
  std::string first;
  for (const auto& [name, exclusion] : excluded_)
    if (!exclusion.matches && strangers++ == 0) first = format("{}: !{}", exclusion.where, name);
  if (strangers > 0)
    list.warnings.push_back(
        format("{} excludes no host{}", first,
               strangers > 1 ? format(", nor do {} others", strangers - 1) : ""));
  return list;
}

// A value as it can stand in a hostfile.
std::string quoted(const std::string& value) {
  const bool plain = value.find_first_of(" \t#") == std::string::npos;
  return plain ? value : '"' + value + '"';
}

}  // namespace

Result<HostList> read_hosts(const std::string& hostfile, const std::string& hosts,
                            const ReadFile& read) {
  Reader reader(read);
  if (!hostfile.empty()) COLL_TRY(reader.file(hostfile, nullptr, 0));
  COLL_TRY(reader.mistakes());
  if (!hosts.empty() && !hostfile.empty()) COLL_TRY(reader.pick(hosts, hostfile));
  if (!hosts.empty() && hostfile.empty()) COLL_TRY(reader.option(hosts));
  HostList list = reader.finish();
  if (!list.hosts.empty()) return list;
  const std::string source = hostfile.empty() ? "-H" : hostfile == "-" ? "stdin" : hostfile;
  if (reader.excludes())
    return Error(ErrorCode::usage, format("{}: no host is left", source),
                 "expected at least one host that is not excluded");
  return Error(ErrorCode::usage, format("{}: there is no host in it", source),
               "expected a line for each host, for example: node01 slots=8");
}

std::string hostfile_text(const HostList& list) {
  std::string text;
  for (const HostSpec& host : list.hosts) {
    const bool brackets = host.name.find(':') != std::string::npos;
    text += brackets ? format("[{}]", host.name) : host.name;
    if (host.slots) text += format(" slots={}", *host.slots);
    for (const Attribute& attribute : attributes())
      if (const std::string value = attribute.text(host); !value.empty())
        text += format(" {}={}", attribute.name, quoted(value));
    text += '\n';
  }
  return text;
}

}  // namespace collctl::launcher
