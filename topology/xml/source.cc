#include "topology/xml/source.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>

#include "base/format.h"

namespace collctl::topology {
namespace {

constexpr int kMaxAttributes = 64;  // of one element
// Bytes that pugixml spends per tag and attribute are many times those in the file.
constexpr std::ptrdiff_t kMaxTags = 4 * std::ptrdiff_t{kMaxElements};
constexpr std::ptrdiff_t kMaxEquals = 16 * std::ptrdiff_t{kMaxElements};

// A value in a message: short, and nothing that a terminal would obey.
std::string shown(std::string_view text) {
  std::string safe;
  for (const char c : text.substr(0, 40)) safe += c >= ' ' && c != 127 ? c : '?';
  return safe + (text.size() > 40 ? "..." : "");
}

// `how`: the base of a whole number; nothing for decimal fractions.
template <class T, class... How>
std::optional<T> parse_number(std::string_view text, How... how) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, how...);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

bool has_hex_prefix(std::string_view text) {
  return text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
}

}  // namespace

XmlSource::XmlSource(std::string_view text, std::string name)
    : text_(text), name_(std::move(name)), notes_(name_) {
  line_starts_.push_back(0);
  if (text.size() <= kMaxFileBytes)
    for (size_t at = text.find('\n'); at != text.npos; at = text.find('\n', at + 1))
      line_starts_.push_back(at + 1);
}

Place XmlSource::place_of(size_t offset) const {
  const auto after = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
  return {int(after - line_starts_.begin()), int(offset - *(after - 1)) + 1};
}

size_t XmlSource::offset_of(pugi::xml_node node) const {
  return size_t(std::max<std::ptrdiff_t>(node.offset_debug(), 0));
}

void XmlSource::fail(const Place& at, const std::string& what) {
  if (failed()) return;
  failure_ = Error(ErrorCode::usage, format("{}:{}:{}: {}", name_, at.line, at.column, what));
}

void XmlSource::note(const Place& at, const std::string& what) {
  notes_.add({Severity::note, what, notes_.where(at), ""});
}

Status XmlSource::parse() {
  const auto fail_at = [&](size_t offset, const std::string& what) -> Status {
    fail(place_of(offset), what);
    return take_failure();
  };
  if (text_.size() > kMaxFileBytes)
    return Error(ErrorCode::usage, format("{}: larger than {} MiB: expected a topology file", name_,
                                          kMaxFileBytes >> 20));
  if (const size_t nul = text_.find('\0'); nul != text_.npos)
    return fail_at(nul, "a NUL byte: expected text in UTF-8");
  if (std::count(text_.begin(), text_.end(), '<') > kMaxTags ||
      std::count(text_.begin(), text_.end(), '=') > kMaxEquals)
    return Error(ErrorCode::usage,
                 format("{}: too many tags: expected at most {} elements", name_, kMaxElements));
  const auto parsed =
      document_.load_buffer(text_.data(), text_.size(), pugi::parse_default, pugi::encoding_utf8);
  if (parsed.status == pugi::status_no_document_element)
    return fail_at(text_.size(), "no XML element in it: expected <system version=\"1\">");
  if (!parsed)
    return fail_at(std::min(size_t(std::max<std::ptrdiff_t>(parsed.offset, 0)), text_.size()),
                   format("not XML: {}", parsed.description()));
  return check_limits();
}

Status XmlSource::check_limits() {
  int elements = 0, depth = 0;
  // By hand rather than by recursion: the depth is the input's.
  for (pugi::xml_node node = document_.first_child(); node && !failed();) {
    if (node.type() == pugi::node_element) {
      const Place at = place(node);
      if (++elements > kMaxElements) fail(at, format("more than {} elements", kMaxElements));
      if (depth >= kMaxDepth) fail(at, format("nested deeper than {} elements", kMaxDepth));
      if (depth == 0 && node != document_.document_element())
        fail(at, format("a second root <{}>: expected one <{}>", shown(node.name()),
                        shown(document_.document_element().name())));
    }
    if (pugi::xml_node child = node.first_child()) {
      node = child;
      ++depth;
      continue;
    }
    while (node && !node.next_sibling()) {
      node = node.parent();
      --depth;
    }
    if (node) node = node.next_sibling();
  }
  if (failed()) return take_failure();
  return {};
}

XmlAttributes::XmlAttributes(XmlSource& source, pugi::xml_node node)
    : source_(source), node_(node) {
  std::set<std::string_view> seen;
  int count = 0;
  for (const pugi::xml_attribute attribute : node.attributes()) {
    if (++count > kMaxAttributes) {
      source.fail(source.place(node), format("more than {} attributes", kMaxAttributes));
      return;
    }
    if (!seen.insert(attribute.name()).second) bad(attribute, "it only once");
    if (std::string_view(attribute.value()).size() > kMaxAttributeBytes)
      bad(attribute, format("at most {} bytes", kMaxAttributeBytes));
  }
}

pugi::xml_attribute XmlAttributes::take(const char* name) {
  const pugi::xml_attribute attribute = node_.attribute(name);
  if (attribute) taken_.push_back(attribute);
  return attribute;
}

void XmlAttributes::bad(pugi::xml_attribute attribute, const std::string& expected) {
  // Names lie in pugixml's copy of the text: their distance from the element's name is the offset.
  const size_t offset = source_.offset_of(node_) + size_t(attribute.name() - node_.name());
  source_.fail(source_.place_of(std::min(offset, source_.text_.size())),
               format("{}=\"{}\" in <{}>: expected {}", shown(attribute.name()),
                      shown(attribute.value()), shown(node_.name()), expected));
}

void XmlAttributes::missing(const char* name, const char* expected) {
  source_.fail(source_.place(node_),
               format("<{}> has no {}: expected {}", shown(node_.name()), name, expected));
}

std::optional<std::string> XmlAttributes::text(const char* name) {
  const auto attribute = take(name);
  if (!attribute) return std::nullopt;
  return std::string(attribute.value());
}

std::optional<int64_t> XmlAttributes::integer(const char* name, int64_t minimum, int64_t maximum) {
  const auto attribute = take(name);
  if (!attribute) return std::nullopt;
  const std::string_view value = attribute.value();
  const auto number = has_hex_prefix(value) ? parse_number<int64_t>(value.substr(2), 16)
                                            : parse_number<int64_t>(value);
  if (!number || *number < minimum || *number > maximum) {
    bad(attribute, format("a whole number {}..{}", minimum, maximum));
    return std::nullopt;
  }
  return number;
}

std::optional<int> XmlAttributes::small(const char* name, int minimum, int maximum) {
  const auto value = integer(name, minimum, maximum);
  return value ? std::optional(int(*value)) : std::nullopt;
}

std::optional<uint64_t> XmlAttributes::bits(const char* name) {
  const auto attribute = take(name);
  if (!attribute) return std::nullopt;
  const std::string_view value = attribute.value();
  const auto number = has_hex_prefix(value) ? parse_number<uint64_t>(value.substr(2), 16)
                                            : parse_number<uint64_t>(value);
  if (!number) bad(attribute, "64 bits, such as 0x1f");
  return number;
}

std::optional<uint32_t> XmlAttributes::hex(const char* name, uint32_t maximum) {
  const auto attribute = take(name);
  if (!attribute) return std::nullopt;
  const std::string_view value = attribute.value();
  const auto number = parse_number<uint32_t>(has_hex_prefix(value) ? value.substr(2) : value, 16);
  if (!number || *number > maximum) {
    bad(attribute, format("hexadecimal digits up to 0x{:x}", maximum));
    return std::nullopt;
  }
  return number;
}

std::optional<double> XmlAttributes::number(const char* name, double minimum, double maximum) {
  const auto attribute = take(name);
  if (!attribute) return std::nullopt;
  const auto value = parse_number<double>(attribute.value());
  if (!value || !(*value >= minimum && *value <= maximum)) {
    bad(attribute, format("a number {}..{}", minimum, maximum));
    return std::nullopt;
  }
  return value;
}

std::optional<bool> XmlAttributes::flag(const char* name) {
  const auto value = small(name, 0, 1);
  return value ? std::optional(*value == 1) : std::nullopt;
}

std::optional<BusId> XmlAttributes::bus_id(const char* name) {
  const auto attribute = take(name);
  if (!attribute) return std::nullopt;
  const auto id = parse_bus_id(attribute.value());
  if (!id) bad(attribute, "a PCI address such as 0000:0f:00.0");
  return id;
}

std::vector<BusId> XmlAttributes::bus_ids(const char* name) {
  std::vector<BusId> ids;
  const auto attribute = take(name);
  if (!attribute) return ids;
  std::istringstream words(attribute.value());
  for (std::string word; words >> word;) {
    const auto id = parse_bus_id(word);
    if (!id) bad(attribute, "PCI addresses such as 0000:0f:00.0, separated by blanks");
    ids.push_back(id.value_or(BusId{}));
  }
  return ids;
}

Unknowns XmlAttributes::rest() const {
  Unknowns unknown;
  for (const pugi::xml_attribute attribute : node_.attributes())
    if (std::find(taken_.begin(), taken_.end(), attribute) == taken_.end())
      unknown.push_back({attribute.name(), attribute.value()});
  return unknown;
}

}  // namespace collctl::topology
