// Access to a topology XML between pugixml and the reader of the vocabulary: one parsed text with
// positions, and attributes as checked values. Used by read.cc and graph_xml.cc. The first mistake
// is kept, the rest is still read harmlessly and discarded. Threads: one.
#pragma once
#include <cstdint>
#include <optional>
#include <pugixml.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "topology/findings.h"

namespace collctl::topology {

// The text of a file, one byte more than kMaxFileBytes at most. Errors: usage when there is no such
// regular file; unavailable when it cannot be read.
Result<std::string> read_xml_text(const std::string& path);

class XmlSource {
 public:
  XmlSource(std::string_view text, std::string name);
  // Limits, well-formedness, one root element.
  Status parse();
  pugi::xml_node root() const { return document_.document_element(); }

  Place place(pugi::xml_node node) const { return place_of(offset_of(node)); }
  // Keeps the first mistake; later ones are ignored.
  void fail(const Place& at, const std::string& what);
  bool failed() const { return failure_.has_value(); }
  Error take_failure() { return std::move(*failure_); }
  void note(const Place& at, const std::string& what);
  std::vector<Finding> take_notes() { return notes_.take(); }

 private:
  friend class XmlAttributes;
  Place place_of(size_t offset) const;
  size_t offset_of(pugi::xml_node node) const;
  Status check_limits();
  std::string_view text_;
  std::string name_;
  std::vector<size_t> line_starts_;
  pugi::xml_document document_;
  std::optional<Error> failure_;
  FindingList notes_;
};

// The attributes of one element, taken by name; those left over are the unknown ones.
class XmlAttributes {
 public:
  XmlAttributes(XmlSource& source, pugi::xml_node node);
  std::optional<std::string> text(const char* name);
  std::optional<int64_t> integer(const char* name, int64_t minimum, int64_t maximum);
  std::optional<int> small(const char* name, int minimum, int maximum);
  std::optional<uint64_t> bits(const char* name);                   // decimal or 0x...
  std::optional<uint32_t> hex(const char* name, uint32_t maximum);  // 0x... or bare digits
  std::optional<double> number(const char* name, double minimum, double maximum);
  std::optional<bool> flag(const char* name);
  std::optional<BusId> bus_id(const char* name);
  std::vector<BusId> bus_ids(const char* name);  // separated by blanks; none when it is missing
  // Fails when the element lacks the attribute.
  template <class T>
  T required(const char* name, std::optional<T> value, const char* expected) {
    if (!value) missing(name, expected);
    return value.value_or(T{});
  }
  Unknowns rest() const;

 private:
  pugi::xml_attribute take(const char* name);
  void bad(pugi::xml_attribute attribute, const std::string& expected);
  void missing(const char* name, const char* expected);
  XmlSource& source_;
  pugi::xml_node node_;
  std::vector<pugi::xml_attribute> taken_;
};

}  // namespace collctl::topology
