// The JSON forms of bench records (cmd/bench.h): what travels between the launcher's process and
// the ranks. Reading trusts nothing: a wrong kind, an unknown name or a number out of range is an
// error that names the field.
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "cmd/bench.h"

namespace collctl::cmd {

namespace {

using Json = nlohmann::json;
using kernels::Collective;
using kernels::DataType;
using kernels::RedOp;

constexpr size_t kMaxText = size_t(64) << 20;
constexpr size_t kMaxList = 1 << 20;  // entries of any list
constexpr size_t kMaxWord = 1 << 16;  // bytes of any text inside

// Looks fields up and converts them; the first thing wrong is kept, everything after gives zeros.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  template <class T>
  void number(const char* name, T& out, double least, double most) {
    const Json* field = find(name);
    if (field == nullptr) return;
    if (!field->is_number() || (std::is_integral_v<T> && !field->is_number_integer()))
      return fail(name, std::is_integral_v<T> ? "a whole number" : "a number");
    const double value = field->get<double>();
    if (!(value >= least && value <= most))
      return fail(name, format("a number from {} to {}", least, most));
    out = field->get<T>();
  }
  void count(const char* name, uint64_t& out) {
    const Json* field = find(name);
    if (field == nullptr) return;
    if (!field->is_number_unsigned()) return fail(name, "a whole number, not negative");
    out = field->get<uint64_t>();
  }
  void whole(const char* name, int& out, int least, int most) { number(name, out, least, most); }
  void real(const char* name, double& out) { number(name, out, -1e300, 1e300); }
  void flag(const char* name, bool& out) {
    const Json* field = find(name);
    if (field == nullptr) return;
    if (!field->is_boolean()) return fail(name, "true or false");
    out = field->get<bool>();
  }
  void text(const char* name, std::string& out) {
    const Json* field = find(name);
    if (field == nullptr) return;
    if (!field->is_string() || field->get_ref<const std::string&>().size() > kMaxWord)
      return fail(name, "a text");
    out = field->get<std::string>();
  }
  // A name of an enumeration, as name_of gives it.
  template <class T>
  void name(const char* field_name, T& out, int how_many) {
    std::string word;
    text(field_name, word);
    if (error_) return;
    for (int i = 0; i < how_many; ++i) {
      if (word == kernels::name_of(T(i))) {
        out = T(i);
        return;
      }
    }
    fail(field_name, "a known name");
  }
  // Every element of a list.
  template <class Each>
  void list(const char* name, Each each) {
    const Json* field = find(name);
    if (field == nullptr) return;
    if (!field->is_array() || field->size() > kMaxList) return fail(name, "a list");
    for (const Json& element : *field) {
      if (error_) return;
      each(element);
    }
  }
  void numbers(const char* name, std::vector<int>& out) {
    out.clear();
    list(name, [&](const Json& element) {
      if (!element.is_number_integer() || element.get<double>() < -2147483648.0 ||
          element.get<double>() > 2147483647.0)
        return fail(name, "a list of whole numbers");
      out.push_back(element.get<int>());
    });
  }
  void words(const char* name, std::vector<std::string>& out) {
    out.clear();
    list(name, [&](const Json& element) {
      if (!element.is_string() || element.get_ref<const std::string&>().size() > kMaxWord)
        return fail(name, "a list of texts");
      out.push_back(element.get<std::string>());
    });
  }
  template <class T>
  void names(const char* field_name, std::vector<T>& out, int how_many) {
    std::vector<std::string> list_of_words;
    words(field_name, list_of_words);
    out.clear();
    for (const std::string& word : list_of_words) {
      int i = 0;
      while (i < how_many && word != kernels::name_of(T(i))) ++i;
      if (i == how_many) return fail(field_name, "known names");
      out.push_back(T(i));
    }
  }
  // A field that is an object of its own.
  template <class Each>
  void object(const char* name, Each each) {
    const Json* field = find(name);
    if (field == nullptr) return;
    Fields inner(*field);
    each(inner);
    take(inner);
  }
  void take(const Fields& inner) {
    if (!error_) error_ = inner.error_;
  }
  void fail(const char* name, const std::string& expected) {
    if (!error_)
      error_ = Error{ErrorCode::usage, format("field '{}': expected {}", name, expected)};
  }
  Status status() const {
    if (error_) return *error_;
    return {};
  }

 private:
  const Json* find(const char* name) {
    if (error_) return nullptr;
    if (!object_.is_object()) {
      error_ = Error{ErrorCode::usage, "expected an object"};
      return nullptr;
    }
    const auto at = object_.find(name);
    if (at != object_.end()) return &*at;
    error_ = Error{ErrorCode::usage, format("field '{}' is missing", name)};
    return nullptr;
  }

  const Json& object_;
  std::optional<Error> error_;
};

Result<Json> parse(const std::string& text) {
  if (text.size() > kMaxText)
    return Error{ErrorCode::usage, format("record of {} bytes; at most {}", text.size(), kMaxText)};
  // Depth is bounded by hand: a deeply nested text would overflow the parser's destructor.
  int depth = 0;
  auto keep_flat = [&](int level, Json::parse_event_t, Json&) {
    depth = std::max(depth, level);
    return level < 16;
  };
  Json json = Json::parse(text, keep_flat, false);
  if (json.is_discarded() || !json.is_object() || depth >= 16)
    return Error{ErrorCode::usage, "not one JSON object"};
  return json;
}

// Texts may come from outside (host names): bytes that are not UTF-8 are replaced, never thrown.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <class T>
Json names_of(const std::vector<T>& values) {
  Json list = Json::array();
  for (T value : values) list.push_back(kernels::name_of(value));
  return list;
}

Json to_json(const Timing& t) {
  return {{"measured", t.measured},     {"time_us", t.time_us},
          {"p50_us", t.p50_us},         {"p99_us", t.p99_us},
          {"min_us", t.min_us},         {"max_us", t.max_us},
          {"algbw_GBps", t.algbw_GBps}, {"busbw_GBps", t.busbw_GBps},
          {"wrong", t.wrong},           {"slowest_rank", t.slowest_rank}};
}

void read(Fields& f, Timing& t) {
  f.flag("measured", t.measured);
  f.real("time_us", t.time_us);
  f.real("p50_us", t.p50_us);
  f.real("p99_us", t.p99_us);
  f.real("min_us", t.min_us);
  f.real("max_us", t.max_us);
  f.real("algbw_GBps", t.algbw_GBps);
  f.real("busbw_GBps", t.busbw_GBps);
  f.number("wrong", t.wrong, -1, 9e18);
  f.whole("slowest_rank", t.slowest_rank, -1, 1 << 30);
}

void read(Fields& f, BenchRow& row) {
  f.count("bytes", row.bytes);
  f.count("count", row.count);
  f.name("dtype", row.type, kernels::kDataTypeCount);
  f.name("redop", row.op, kernels::kRedOpCount);
  f.flag("has_op", row.has_op);
  f.whole("root", row.root, -1, 1 << 30);
  f.text("algorithm", row.algorithm);
  f.text("protocol", row.protocol);
  f.whole("channels", row.channels, 0, 1 << 20);
  f.object("out_of_place", [&](Fields& inner) { read(inner, row.out_of_place); });
  f.object("in_place", [&](Fields& inner) { read(inner, row.in_place); });
}

void read(Fields& f, BenchHeader& header) {
  f.text("version", header.version);
  f.text("device", header.device);
  f.name("op", header.collective, kernels::kCollectiveCount);
  f.whole("ranks", header.ranks, 0, 1 << 20);
  f.list("hosts", [&](const Json& element) {
    Fields inner(element);
    HostLine line;
    inner.text("host", line.host);
    inner.numbers("ranks", line.ranks);
    inner.numbers("devices", line.devices);
    inner.numbers("pids", line.pids);
    f.take(inner);
    header.hosts.push_back(std::move(line));
  });
  f.list("links", [&](const Json& element) {
    Fields inner(element);
    LinkLine line{};
    inner.whole("channel", line.channel, 0, 1 << 20);
    inner.whole("from", line.from, 0, 1 << 20);
    inner.whole("to", line.to, 0, 1 << 20);
    inner.text("via", line.via);
    f.take(inner);
    header.links.push_back(std::move(line));
  });
  f.real("init_seconds", header.init_seconds);
  f.text("note", header.note);
}

void read(Fields& f, DataFault& fault) {
  f.whole("rank", fault.rank, -1, 1 << 30);
  f.count("first_element", fault.first_element);
  f.count("first_byte", fault.first_byte);
  f.count("last_byte", fault.last_byte);
  f.count("bad_elements", fault.bad_elements);
  f.whole("channel", fault.channel, -1, 1 << 20);
  f.count("chunk", fault.chunk);
  f.count("step", fault.step);
  f.whole("peer", fault.peer, -1, 1 << 30);
  f.text("kind", fault.kind);
  f.text("message", fault.message);
}

}  // namespace

std::string BenchSpec::to_json() const {
  return dump({{"collective", kernels::name_of(collective)},
               {"min_bytes", min_bytes},
               {"max_bytes", max_bytes},
               {"step_factor", step_factor},
               {"step_bytes", step_bytes},
               {"iterations", iterations},
               {"warmup", warmup},
               {"sync_each", sync_each},
               {"types", names_of(types)},
               {"ops", names_of(ops)},
               {"roots", roots},
               {"check", check},
               {"in_place", int(in_place)},
               {"algorithms", algorithms},
               {"protocols", protocols},
               {"channels", channels},
               {"transport", transport},
               {"op_timeout_s", op_timeout_s},
               {"start_timeout_s", start_timeout_s},
               {"local_ranks", local_ranks},
               {"verbosity", verbosity}});
}

Result<BenchSpec> BenchSpec::from_json(const std::string& text) {
  constexpr const char* kContext = "reading the bench specification";
  auto json = parse(text);
  if (!json) return std::move(json.error()).within(kContext);
  Fields f(*json);
  BenchSpec spec;
  int in_place = 0;
  f.name("collective", spec.collective, kernels::kCollectiveCount);
  f.count("min_bytes", spec.min_bytes);
  f.count("max_bytes", spec.max_bytes);
  f.count("step_factor", spec.step_factor);
  f.count("step_bytes", spec.step_bytes);
  f.whole("iterations", spec.iterations, 1, 1'000'000);
  f.whole("warmup", spec.warmup, 0, 1'000'000);
  f.flag("sync_each", spec.sync_each);
  f.names("types", spec.types, kernels::kDataTypeCount);
  f.names("ops", spec.ops, kernels::kRedOpCount);
  f.numbers("roots", spec.roots);
  f.flag("check", spec.check);
  f.whole("in_place", in_place, 0, 2);
  f.words("algorithms", spec.algorithms);
  f.words("protocols", spec.protocols);
  f.whole("channels", spec.channels, 0, kernels::kMaxChannels);
  f.text("transport", spec.transport);
  f.number("op_timeout_s", spec.op_timeout_s, 0, 1e6);
  f.number("start_timeout_s", spec.start_timeout_s, 0, 1e6);
  f.whole("local_ranks", spec.local_ranks, 0, 1 << 20);
  f.whole("verbosity", spec.verbosity, 0, 10);
  spec.in_place = InPlace(in_place);
  COLL_TRY_IN(f.status(), kContext);
  return spec;
}

std::string encode_record(const BenchHeader& header) {
  Json hosts = Json::array(), links = Json::array();
  for (const HostLine& line : header.hosts)
    hosts.push_back({{"host", line.host},
                     {"ranks", line.ranks},
                     {"devices", line.devices},
                     {"pids", line.pids}});
  for (const LinkLine& line : header.links)
    links.push_back(
        {{"channel", line.channel}, {"from", line.from}, {"to", line.to}, {"via", line.via}});
  return dump({{"record", "header"},
               {"version", header.version},
               {"device", header.device},
               {"op", kernels::name_of(header.collective)},
               {"ranks", header.ranks},
               {"hosts", std::move(hosts)},
               {"links", std::move(links)},
               {"init_seconds", header.init_seconds},
               {"note", header.note}});
}

std::string encode_record(const BenchRow& row) {
  return dump({{"record", "row"},
               {"bytes", row.bytes},
               {"count", row.count},
               {"dtype", kernels::name_of(row.type)},
               {"redop", kernels::name_of(row.op)},
               {"has_op", row.has_op},
               {"root", row.root},
               {"algorithm", row.algorithm},
               {"protocol", row.protocol},
               {"channels", row.channels},
               {"out_of_place", to_json(row.out_of_place)},
               {"in_place", to_json(row.in_place)}});
}

std::string encode_record(const DataFault& fault) {
  return dump({{"record", "fault"},
               {"rank", fault.rank},
               {"first_element", fault.first_element},
               {"first_byte", fault.first_byte},
               {"last_byte", fault.last_byte},
               {"bad_elements", fault.bad_elements},
               {"channel", fault.channel},
               {"chunk", fault.chunk},
               {"step", fault.step},
               {"peer", fault.peer},
               {"kind", fault.kind},
               {"message", fault.message}});
}

std::string encode_progress(const std::string& text) {
  return dump({{"record", "progress"}, {"text", text}});
}

std::string encode_phase(int rank, const std::string& name) {
  return dump({{"record", "phase"}, {"rank", rank}, {"name", name}});
}

Status deliver_record(const std::string& text, BenchSink& sink) {
  constexpr const char* kContext = "reading a bench record";
  auto json = parse(text);
  if (!json) return std::move(json.error()).within(kContext);
  Fields f(*json);
  std::string kind;
  f.text("record", kind);
  if (kind == "header") {
    BenchHeader header;
    read(f, header);
    COLL_TRY_IN(f.status(), kContext);
    sink.header(header);
  } else if (kind == "row") {
    BenchRow row;
    read(f, row);
    COLL_TRY_IN(f.status(), kContext);
    sink.row(row);
  } else if (kind == "fault") {
    DataFault fault;
    read(f, fault);
    COLL_TRY_IN(f.status(), kContext);
    sink.fault(fault);
  } else if (kind == "progress") {
    std::string words;
    f.text("text", words);
    COLL_TRY_IN(f.status(), kContext);
    sink.progress(words);
  } else if (kind == "phase") {
    int rank = -1;
    std::string name;
    f.whole("rank", rank, -1, 1 << 30);
    f.text("name", name);
    COLL_TRY_IN(f.status(), kContext);
    sink.phase(rank, name);
  } else {
    f.fail("record", "header, row, fault, progress or phase");
    COLL_TRY_IN(f.status(), kContext);
  }
  return {};
}

}  // namespace collctl::cmd
