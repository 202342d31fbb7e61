#include "base/record.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/format.h"
#include "base/socket.h"

namespace collctl::base {
namespace {

using Json = nlohmann::json;

constexpr int kMostDepth = 16;
constexpr size_t kMostContexts = 64;  // of an error

bool known_code(int32_t code) {
  return (code >= int32_t(ErrorCode::failed) && code <= int32_t(ErrorCode::incomplete)) ||
         code == int32_t(ErrorCode::defect) || code == int32_t(ErrorCode::interrupted);
}

// Nothing: it is none, or does not fit.
template <class T>
std::optional<T> integer_in(const Json& json) {
  if (json.is_number_unsigned()) {
    const auto number = json.get<uint64_t>();
    return std::in_range<T>(number) ? std::optional(T(number)) : std::nullopt;
  }
  const bool negative = std::is_signed_v<T> && json.is_number_integer();
  return negative ? std::optional(json.get<T>()) : std::nullopt;
}

}  // namespace

Result<Record> Record::read(const std::string& text) {
  if (text.size() > kMostDocument)
    return Error(ErrorCode::usage,
                 format("record of {} bytes; at most {}", text.size(), kMostDocument));
  // Depth is bounded by hand: a deeply nested text would overflow the parser's destructor.
  int depth = 0;
  const auto keep_flat = [&](int level, Json::parse_event_t, Json&) {
    depth = std::max(depth, level);
    return level < kMostDepth;
  };
  Record io;
  try {
    auto json = std::make_shared<const Json>(Json::parse(text, keep_flat));
    if (depth >= kMostDepth || !json->is_object())
      return Error(ErrorCode::usage, "not one JSON object");
    io.document_ = std::move(json);
  } catch (const Json::exception& error) {
    // Without the library's own name for it: "[json.exception.parse_error.101] ".
    const std::string_view what = error.what();
    const size_t head = what.find("] ");
    return Error(ErrorCode::usage,
                 format("not one JSON object: {}",
                        what.substr(head == std::string_view::npos ? 0 : head + 2)));
  }
  io.inside_.push_back(io.document_.get());
  return io;
}

Status Record::status() const {
  if (error_) return *error_;
  return {};
}

void Record::fail(const char* name, const std::string& expected) {
  if (!error_) error_ = Error(ErrorCode::usage, format("field '{}': expected {}", name, expected));
}

const Json* Record::find(const char* name) {
  if (error_) return nullptr;
  if (element_ != nullptr) return std::exchange(element_, nullptr);
  const auto at = inside_.back()->find(name);
  if (at != inside_.back()->end()) return &*at;
  error_ = Error(ErrorCode::usage, format("field '{}' is missing", name));
  return nullptr;
}

void Record::begin_value(const char* name) {
  if (!std::exchange(in_list_, false)) out_->key(name);
}

uint64_t Record::number_of_bytes(const char* name, uint64_t value, size_t bytes) {
  if (bytes_out_ != nullptr) {
    uint8_t raw[sizeof value];
    for (size_t i = 0; i < bytes; ++i) raw[i] = uint8_t(value >> 8 * i);
    bytes_out_->put_rest({raw, bytes});
    return 0;
  }
  value = 0;
  if (error_) return value;
  if (bytes_in_->size() < bytes) return fail(name, "more bytes"), value;
  for (size_t i = 0; i < bytes; ++i) value |= uint64_t((*bytes_in_)[i]) << 8 * i;
  bytes_in_ = bytes_in_->subspan(bytes);
  return value;
}

ByteView Record::text_of_bytes(const char* name, ByteView value, size_t most) {
  const uint64_t size = number_of_bytes(name, value.size(), sizeof(uint32_t));
  if (bytes_out_ != nullptr) {
    bytes_out_->put_rest(value);
    return value;
  }
  if (error_) return {};
  if (size > most) return fail(name, format("at most {} bytes", most)), ByteView();
  if (size > bytes_in_->size()) return fail(name, "more bytes"), ByteView();
  const ByteView read = bytes_in_->first(size);
  bytes_in_ = bytes_in_->subspan(size);
  return read;
}

bool Record::has(const char* name, bool written) {
  if (in_bytes()) {
    field(name, written);
    return written && going_on();
  }
  if (!reading()) return written;
  if (error_) return false;
  const auto at = inside_.back()->find(name);
  return at != inside_.back()->end() && !at->is_null();
}

bool Record::null(const char* name, bool written) {
  if (in_bytes()) return has(name, written) || !going_on();
  if (!reading()) {
    if (!written) return false;
    begin_value(name);
    out_->null();
    return true;
  }
  const Json* const element = element_;
  const Json* const value = find(name);
  element_ = element;
  return value == nullptr || value->is_null();
}

void Record::field(const char* name, bool& value) {
  if (in_bytes()) {
    const uint64_t read = number_of_bytes(name, value, 1);
    if (read > 1) fail(name, "true or false");
    if (reading()) value = read == 1;
    return;
  }
  if (!reading()) {
    begin_value(name);
    out_->value(value);
  } else if (const Json* const json = find(name)) {
    if (!json->is_boolean()) return fail(name, "true or false");
    value = json->get<bool>();
  }
}

void Record::field(const char* name, double& value, double least, double most) {
  double number = 0;
  if (in_bytes()) {
    number = std::bit_cast<double>(
        number_of_bytes(name, std::bit_cast<uint64_t>(value), sizeof(uint64_t)));
  } else if (!reading()) {
    begin_value(name);
    out_->value(value);
  } else if (const Json* const json = find(name)) {
    if (!json->is_number()) return fail(name, "a number");
    number = json->get<double>();
  }
  if (!reading() || error_) return;
  if (!(number >= least && number <= most))
    return fail(name, format("a number from {} to {}", least, most));
  value = number;
}

void Record::field(const char* name, std::string& value, size_t most) {
  if (in_bytes()) {
    const ByteView read = text_of_bytes(name, bytes_of(value), most);
    if (reading()) value.assign(read.begin(), read.end());
    return;
  }
  if (!reading()) {
    begin_value(name);
    out_->value(value);
  } else if (const Json* const json = find(name)) {
    if (!json->is_string()) return fail(name, "a text");
    const auto& text = json->get_ref<const std::string&>();
    if (text.size() > most) return fail(name, format("a text of at most {} bytes", most));
    value = text;
  }
}

void Record::field(const char* name, Bytes& value, size_t most) {
  if (!in_bytes())
    return list(
        name, value, [&](uint8_t& each) { field(name, each); }, most);
  const ByteView read = text_of_bytes(name, value, most);
  if (reading()) value.assign(read.begin(), read.end());
}

void Record::field(const char* name, Host& value, size_t most) {
  if (in_bytes()) {
    auto id = int32_t(value.id);
    field(name, id, int32_t(HostId::none));
    if (reading()) value.id = HostId(id);
    return field(name, value.name, most);
  }
  const std::string id_name = std::string(name) + "_id";
  field(name, value.name, most);
  auto id = int32_t(value.id);
  if (reading() ? has(id_name.c_str(), true) : out_->exact() && value.id != HostId::none) {
    field(id_name.c_str(), id, 0);
    if (reading()) value.id = HostId(id);
  } else if (reading()) {
    value = saved_host(value.name);
  }
}

template <class T>
std::optional<T> Record::integer(const char* name, T value, const Bounds<T>& bounds) {
  std::optional<T> read;
  if (in_bytes()) {
    const size_t above =
        64 - 8 * bounds.bytes;  // of a signed number its sign comes down from there
    read = T(number_of_bytes(name, uint64_t(value), bounds.bytes) << above) >> above;
  } else if (!reading()) {
    begin_value(name);
    out_->value(value);
  } else if (const Json* const json = find(name)) {
    read = integer_in<T>(*json);
  }
  if (!reading() || error_) return std::nullopt;
  if (read && *read >= bounds.least && *read <= bounds.most) return read;
  fail(name, format("a whole number from {} to {}", bounds.least, bounds.most));
  return std::nullopt;
}
template std::optional<int64_t> Record::integer(const char*, int64_t, const Bounds<int64_t>&);
template std::optional<uint64_t> Record::integer(const char*, uint64_t, const Bounds<uint64_t>&);

std::optional<int> Record::word(const char* name, int value, int how_many,
                                const std::function<const char*(int)>& of) {
  if (in_bytes()) {
    number(name, value, how_many);
    return reading() && !error_ ? std::optional(value) : std::nullopt;
  }
  std::string text;
  if (!reading()) text = of(value);
  field(name, text);
  if (!reading() || error_) return std::nullopt;
  for (int i = 0; i < how_many; ++i)
    if (text == of(i)) return i;
  fail(name, "a known name");
  return std::nullopt;
}

size_t Record::begin_list(const char* name, size_t size, size_t most) {
  if (in_bytes()) {
    const uint64_t read = number_of_bytes(name, size, sizeof(uint32_t));
    if (!reading()) return size;
    // Each element has a byte at least.
    if (read <= most && read <= bytes_in_->size()) return read;
    fail(name, format("a list of at most {}", most));
    return 0;
  }
  if (!reading()) {
    begin_value(name);
    out_->begin_array();
    return size;
  }
  const Json* const json = find(name);
  inside_.push_back(json);
  if (json == nullptr) return 0;
  if (json->is_array() && json->size() <= most) return json->size();
  fail(name, format("a list of at most {}", most));
  return 0;
}

bool Record::element(size_t index) {
  if (in_bytes()) return going_on();
  in_list_ = !reading();
  if (!reading()) return true;
  if (error_) return false;
  element_ = &(*inside_.back())[index];
  return true;
}

void Record::end_list() {
  if (in_bytes()) return;
  if (!reading())
    out_->end_array();
  else
    inside_.pop_back();
}

bool Record::begin_object(const char* name) {
  if (in_bytes()) {
    if (++depth_ > kMostDepth) fail(name, format("at most {} objects in each other", kMostDepth));
    return going_on();
  }
  if (!reading()) {
    begin_value(name);
    out_->begin_object();
    return true;
  }
  const Json* const json = find(name);
  if (json == nullptr) return false;
  if (json->is_object())
    inside_.push_back(json);
  else
    fail(name, "an object");
  return json->is_object();
}

void Record::end_object() {
  if (in_bytes())
    --depth_;
  else if (!reading())
    out_->end_object();
  else
    inside_.pop_back();
}

void Record::document(const char* name, std::string& text) {
  if (in_bytes()) return field(name, text, kMostDocument);
  if (!reading()) {
    begin_value(name);
    out_->raw(text);
  } else if (const Json* const json = find(name)) {
    if (!json->is_object()) return fail(name, "an object");
    text = json->dump(-1, ' ', false, Json::error_handler_t::replace);
  }
}

Error malformed_record(const char* what, ByteView bytes, const Record& io) {
  const Status status = io.status();
  return {ErrorCode::lost, format("malformed {} of {} bytes ({})", what, bytes.size(),
                                  status ? "bytes behind its end" : status.error().message)};
}

void fields(Record& io, Address& address) {
  const auto size_of = [](int family) {
    return family == AF_INET ? sizeof(sockaddr_in) : family == AF_INET6 ? sizeof(sockaddr_in6) : 0;
  };
  const auto* const at = reinterpret_cast<const uint8_t*>(&address.storage);
  Bytes bytes(at, at + size_of(address.family()));
  io.field("address", bytes, sizeof(sockaddr_in6));
  if (!io.reading()) return;
  address = Address();
  if (bytes.size() < sizeof(sa_family_t)) return;
  std::memcpy(&address.storage, bytes.data(), bytes.size());
  if (bytes.size() == size_of(address.family()))
    address.length = socklen_t(bytes.size());
  else
    address = Address();
}

void fields(Record& io, Error& error) {
  const auto text = [&](const char* name, std::string& value) {
    std::string cut = value.substr(0, Record::kMostText);
    io.field(name, cut);
    if (io.reading()) value = std::move(cut);
  };
  auto code = int32_t(error.code);
  io.field("code", code);
  if (!known_code(code)) io.fail("code", "a known one");
  if (io.reading()) error.code = ErrorCode(code);
  io.number("cause", error.cause, kCauses);
  io.field("rank", error.rank);
  io.field("from", error.from);
  io.field("awaited", error.awaited);
  io.field("signal", error.signal);
  text("message", error.message);
  text("hint", error.hint);
  text("host", error.host);
  auto host_id = int32_t(error.host_id);
  io.field("host_id", host_id);
  if (io.reading()) error.host_id = HostId(host_id);
  std::vector<std::string> contexts = error.contexts;
  contexts.resize(std::min(contexts.size(), kMostContexts));
  io.list(
      "contexts", contexts, [&](std::string& each) { text("contexts", each); }, kMostContexts);
  if (io.reading()) error.contexts = std::move(contexts);
}

Bytes encode_error(const Error& error) {
  return encoded(error);
}

Error decode_error(ByteView bytes) {
  Record io(bytes);
  Error error;
  fields(io, error);
  return io.status() && io.rest().empty() ? error : malformed_record("error record", bytes, io);
}

Error brief_error(const Error& error, size_t most_text) {
  Error brief = error;
  brief.message = error.chain().substr(0, most_text);
  brief.hint = error.hint.substr(0, most_text);
  brief.contexts.clear();
  return brief;
}

std::string indented_json(const std::string& text) {
  return Json::parse(text).dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string json_part(const std::string& text, const char* field) {
  return Json::parse(text).at(field).dump();
}

}  // namespace collctl::base
