// JSON and bytes by one description per record. A function
//   void fields(Record& io, T& record)
// beside the record names each of its fields once, with its bounds; a Record writes by it, or
// reads by it. Writing changes nothing in the record, and neither may the description. Reading
// trusts nothing: a wrong kind, a number out of range, an unknown name, a text or list too long is
// a mistake; the first is kept (status) and nothing is read after it. Bytes have the values alone,
// in the order of the description and as wide as their types, so both ends are of one version.
// Threads: one.
#pragma once
#include <concepts>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/bytes.h"
#include "base/host.h"
#include "base/json_writer.h"
#include "base/result.h"

namespace collctl::base {

class Record {
 public:
  static constexpr size_t kMostDocument = size_t(64) << 20;  // bytes
  static constexpr size_t kMostText = size_t(1) << 16;       // bytes of one text
  static constexpr size_t kMostEntries = size_t(1) << 20;    // of a list
  static constexpr double kAny = 1e300;
  static constexpr double kAboveZero = std::numeric_limits<double>::min();

  // Writes into an object that was begun; `out` must outlive it.
  explicit Record(JsonWriter& out) : out_(&out) {}
  // Writes bytes; `out` must outlive it.
  explicit Record(ByteWriter& out) : bytes_out_(&out) {}
  // Reads bytes, which must outlive it.
  explicit Record(ByteView in) : bytes_in_(in) {}
  // Reads a text that must be one object. Errors: usage.
  static Result<Record> read(const std::string& text);

  bool reading() const { return out_ == nullptr && bytes_out_ == nullptr; }
  Status status() const;
  // The bytes that are not read yet.
  ByteView rest() const { return *bytes_in_; }
  // A mistake that bounds do not tell.
  void fail(const char* name, const std::string& expected);

  // Whether a field that may be missing (or null) is there; of what is written, as `written` says.
  bool has(const char* name, bool written);
  // Whether a field that must be there is null; of what is written, whether to write that.
  bool null(const char* name, bool written);

  // --- one value ---
  void field(const char* name, bool& value);
  void field(const char* name, double& value, double least = -kAny, double most = kAny);
  void field(const char* name, std::string& value, size_t most = kMostText);
  // A host's name, and with numbers as they are its place, in a field of that name and "_id". Read
  // without a place it is one by its name (saved_host).
  void field(const char* name, Host& value, size_t most = kMostText);
  void field(const char* name, Bytes& value, size_t most = kMostText);
  template <std::integral T>
  void field(const char* name, T& value,
             std::type_identity_t<T> least = std::numeric_limits<T>::min(),
             std::type_identity_t<T> most = std::numeric_limits<T>::max()) {
    using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    if (const auto read = integer<Wide>(name, value, {least, most, sizeof(T)})) value = T(*read);
  }
  // A record that has a description.
  template <class T>
  requires(std::is_class_v<T> && !std::is_same_v<T, Host>) void field(const char* name, T& value) {
    object(name, [&] { fields(*this, value); });
  }
  // null: none.
  template <class T, class... Bounds>
  void field(const char* name, std::optional<T>& value, Bounds... bounds) {
    if (null(name, !value)) {
      if (reading()) value.reset();
      return;
    }
    if (!value) value.emplace();
    field(name, *value, bounds...);
  }
  // Each element as a field.
  template <class T, class... Bounds>
  void field(const char* name, std::vector<T>& values, size_t most = kMostEntries,
             Bounds... bounds) {
    list(
        name, values, [&](T& each) { field(name, each, bounds...); }, most);
  }
  // A value of an enumeration by its word: `word_of` of 0 to how_many - 1.
  template <class T>
  void name(const char* field_name, T& value, int how_many, const char* (*word_of)(T)) {
    const auto word_of_number = [word_of](int i) { return word_of(T(i)); };
    if (const auto read = word(field_name, int(value), how_many, word_of_number)) value = T(*read);
  }
  // ... by its number, up to 256 of them.
  template <class T>
  void number(const char* name, T& value, int how_many) {
    auto chosen = uint8_t(value);
    field(name, chosen, 0, uint8_t(how_many - 1));
    if (reading()) value = T(chosen);
  }
  // Left out when it is empty (a text, a list, an optional value), and empty when it is missing.
  template <class T, class... Bounds>
  void unless_empty(const char* name, T& value, Bounds... bounds) {
    constexpr bool is_optional = requires {
      value.has_value();
    };
    bool written = false;
    if constexpr (is_optional)
      written = value.has_value();
    else
      written = !value.empty();
    if (!has(name, written)) {
      if (reading()) value = T();
      return;
    }
    if constexpr (is_optional) {
      if (!value) value.emplace();
      field(name, *value, bounds...);
    } else {
      field(name, value, bounds...);
    }
  }

  // --- what has parts ---
  // Within each(), the field (of any name) is the element.
  template <class T, class Each>
  void list(const char* name, std::vector<T>& values, Each each, size_t most = kMostEntries) {
    const size_t size = begin_list(name, values.size(), most);
    if (reading()) values.clear();
    for (size_t i = 0; i < size && element(i); ++i) {
      if (reading()) values.emplace_back();
      each(values[i]);
    }
    end_list();
  }
  // A list of objects: `each` says what is in one.
  template <class T, class Each>
  void objects(const char* name, std::vector<T>& values, Each each, size_t most = kMostEntries) {
    list(
        name, values, [&](T& one) { object(name, [&] { each(one); }); }, most);
  }
  template <class Inner>
  void object(const char* name, Inner inner) {
    if (!begin_object(name)) return;
    inner();
    end_object();
  }
  // An object as the text of its own document, for a reader of its own.
  void document(const char* name, std::string& text);

 private:
  template <class T>
  struct Bounds {
    T least, most;
    size_t bytes;  // of the type
  };
  Record() = default;
  const nlohmann::json* find(const char* name);
  void begin_value(const char* name);
  // These write, or return what was read; none after a mistake.
  template <class T>
  std::optional<T> integer(const char* name, T value, const Bounds<T>& bounds);
  std::optional<int> word(const char* name, int value, int how_many,
                          const std::function<const char*(int)>& of);
  size_t begin_list(const char* name, size_t size, size_t most);
  bool element(size_t index);
  void end_list();
  bool begin_object(const char* name);
  void end_object();
  bool going_on() const { return !reading() || !error_; }
  bool in_bytes() const { return bytes_out_ != nullptr || bytes_in_; }
  // So many bytes of a number, little-endian; of what is read 0 after a mistake.
  uint64_t number_of_bytes(const char* name, uint64_t value, size_t bytes);
  ByteView text_of_bytes(const char* name, ByteView value, size_t most);

  JsonWriter* out_ = nullptr;
  ByteWriter* bytes_out_ = nullptr;
  std::optional<ByteView> bytes_in_;  // what is not read yet
  int depth_ = 0;                     // of bytes: objects that were begun
  std::shared_ptr<const nlohmann::json> document_;
  std::vector<const nlohmann::json*> inside_;  // objects and lists, the innermost last
  const nlohmann::json* element_ = nullptr;    // the next field is this element
  bool in_list_ = false;                       // of what is written: the next field has no name
  std::optional<Error> error_;
};

// The same record for a description: who writes changes nothing in it.
template <class T>
T& described(const T& record) {
  return const_cast<T&>(record);
}

// A record's fields into an object that was begun.
template <class T>
void write_fields(JsonWriter& out, const T& record) {
  Record io(out);
  fields(io, described(record));
}

// A record as one document, numbers as they are.
template <class T>
std::string json_of(const T& record) {
  JsonWriter out(JsonWriter::Numbers::exact);
  out.begin_object();
  write_fields(out, record);
  return out.end_object().take();
}

// And back. Errors: usage, with the name of the field, and before it what was `reading` if that is
// said ("reading the options of rails").
template <class T>
Result<T> record_of(const std::string& text, const char* reading = nullptr) {
  auto io = Record::read(text);
  T record{};
  if (io) fields(*io, record);
  Status status = io ? io->status() : Status(std::move(io.error()));
  if (status) return record;
  if (reading == nullptr) return std::move(status.error());
  return std::move(status.error()).within(reading);
}

// A record as bytes, and back with nothing behind it. Errors: lost, naming what it should have
// been.
template <class T>
Bytes encoded(const T& record) {
  ByteWriter out;
  Record io(out);
  fields(io, described(record));
  return out.take();
}
Error malformed_record(const char* what, ByteView bytes, const Record& io);
template <class T>
Result<T> decoded(ByteView bytes) {
  Record io(bytes);
  T record{};
  fields(io, record);
  if (!io.status() || !io.rest().empty()) return malformed_record(T::kRecord, bytes, io);
  return record;
}

// An address that is none is read as one of length 0.
struct Address;
void fields(Record& io, Address& address);

// An error for other processes: long texts and lists of contexts are cut. Malformed bytes are an
// error of code lost that says so.
void fields(Record& io, Error& error);
Bytes encode_error(const Error& error);
Error decode_error(ByteView bytes);
// The same with its contexts in the message, and texts of at most so many bytes.
Error brief_error(const Error& error, size_t most_text);

// A document with a line for each value, its keys in the order of the alphabet.
std::string indented_json(const std::string& text);
// A field of a document that has it, as JSON.
std::string json_part(const std::string& text, const char* field);

}  // namespace collctl::base
namespace collctl {
using base::decode_error;
using base::decoded;
using base::described;
using base::encode_error;
using base::encoded;
using base::json_of;
using base::Record;
using base::record_of;
using base::write_fields;
}  // namespace collctl
