// What records (json.cc) and saved reports (cmd/report/read.cc) have in common, read in one
// place. Threads: values.
#pragma once
#include <string>
#include <vector>

#include "cmd/measure/bench.h"
#include "cmd/text/json_fields.h"

namespace collctl::cmd::json_fields {

// Reads a field that old versions, or other kinds of runs, do not have.
template <class Read>
void if_there(const Json& object, const char* name, Read read) {
  if (object.is_object() && object.contains(name) && !object[name].is_null()) read();
}

// A list of objects: read(fields, element, one) for each.
template <class T, class Read>
void read_list(Fields& f, const char* name, std::vector<T>& out, Read read) {
  f.list(name, [&](const Json& element) {
    Fields inner(element);
    T one{};
    read(inner, element, one);
    f.take(inner);
    out.push_back(std::move(one));
  });
}

inline void read_gpu(Fields& f, const Json& json, GpuLine& gpu) {
  f.text("name", gpu.name);
  f.text("busid", gpu.bus_id);
  f.count("held_bytes", gpu.held_bytes);
  if_there(json, "note", [&] { f.text("note", gpu.note); });
}

inline void read_link(Fields& f, const Json& json, LinkLine& link) {
  f.whole("channel", link.channel, 0, 1 << 20);
  f.whole("from", link.from, 0, 1 << 20);
  f.whole("to", link.to, 0, 1 << 20);
  f.text("via", link.via);
  if_there(json, "why", [&] { f.text("why", link.why); });
}

inline void read_windows(Fields& f, const Json& json, WindowsLine& windows) {
  f.count("bytes", windows.bytes);
  f.list("teams", [&](const Json& element) {
    Fields inner(element);
    inner.numbers("ranks", windows.teams.emplace_back());
    f.take(inner);
  });
  if_there(json, "note", [&] { f.text("note", windows.note); });
}

inline void read_left_out(Fields& f, const Json&, LeftOut& out) {
  f.text("variant", out.variant);
  f.text("reason", out.reason);
}

inline void read_busy(Fields& f, const Json&, BusyHost& host) {
  f.text("host", host.host);
  f.text("why", host.why);
}

inline void read_throttled(Fields& f, const Json&, ThrottledGpu& gpu) {
  f.text("host", gpu.host);
  f.whole("rank", gpu.rank, 0, 1 << 20);
  f.whole("dev", gpu.device, 0, 1 << 20);
  f.text("busid", gpu.bus_id);
  f.text("why", gpu.why);
}

}  // namespace collctl::cmd::json_fields
