#include "base/drivers/plugin.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "base/drivers/library.h"
#include "base/format.h"
#include "base/log.h"
#include "base/split.h"

namespace collctl::base::drivers {

namespace {

constexpr size_t kMostLine = 1024;
thread_local char last_warning[kMostLine];

__attribute__((format(printf, 3, 0))) void take_line(PluginKind kind, int level, const char* text,
                                                     va_list values) {
  constexpr int kWarning = 2, kInfo = 3;
  char line[kMostLine];
  if (std::vsnprintf(line, sizeof line, text, values) < 0) return;
  for (char* c = line; *c != 0; ++c)
    if (static_cast<unsigned char>(*c) < ' ') *c = ' ';
  if (level == kWarning) std::memcpy(last_warning, line, sizeof last_warning);
  const char* const mark = level == kWarning ? "warning: " : "";
  const bool tells = level == kWarning || level == kInfo;
  if (kind == PluginKind::net) {
    if (tells)
      COLL_INFO(net, "NET/Plugin : {}{}", mark, line);
    else
      COLL_TRACE(net, "NET/Plugin : {}", line);
  } else if (tells) {
    COLL_INFO(tuning, "TUNER/Plugin : {}{}", mark, line);
  } else {
    COLL_TRACE(tuning, "TUNER/Plugin : {}", line);
  }
}

__attribute__((format(printf, 5, 6))) void take_net_line(int level, unsigned long, const char*, int,
                                                         const char* text, ...) {
  va_list values;
  va_start(values, text);
  take_line(PluginKind::net, level, text, values);
  va_end(values);
}

__attribute__((format(printf, 5, 6))) void take_tuner_line(int level, unsigned long, const char*,
                                                           int, const char* text, ...) {
  va_list values;
  va_start(values, text);
  take_line(PluginKind::tuner, level, text, values);
  va_end(values);
}

}  // namespace

PluginLog plugin_log(PluginKind kind) {
  return kind == PluginKind::net ? take_net_line : take_tuner_line;
}

std::string take_plugin_warning() {
  if (last_warning[0] == 0) return "";
  std::string said = format("; it said: {}", last_warning);
  last_warning[0] = 0;
  return said;
}

std::string plugin_name(const char* name) {
  if (name == nullptr) return "";
  std::string text(name, ::strnlen(name, kPluginMostName));
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = '?';
  return text;
}

const char* plugin_code_text(int code) {
  static constexpr const char* kMeanings[] = {"success",        "CUDA error",       "system error",
                                              "internal error", "invalid argument", "invalid usage",
                                              "remote error",   "still in progress"};
  return code >= 0 && code < int(std::size(kMeanings)) ? kMeanings[code] : "unknown error";
}

std::string plugin_file(const char* prefix, const std::string& name) {
  const bool file =
      name.find('/') != std::string::npos || (name.starts_with("lib") && name.ends_with(".so"));
  return file ? name : format("{}-{}.so", prefix, name);
}

namespace {

constexpr int kNewestInterface = 32;

FoundPlugin open_plugin(PluginKind kind, const std::string& file) {
  FoundPlugin found;
  const Library library(file.c_str());
  if (!library) {
    found.missing = library.error();
    return found;
  }
  found.path = library.path();
  const char* const structure = kind == PluginKind::net ? "ncclNetPlugin" : "ncclTunerPlugin";
  for (int version = kNewestInterface; version > 0 && found.version == 0; --version)
    if (library.find_data(format("{}_v{}", structure, version)) != nullptr) found.version = version;
  if (found.version == 0) found.missing = format("{} has no {}", file, structure);
  return found;
}

}  // namespace

FoundPlugin look_for_plugin(PluginKind kind, const std::string& wanted) {
  const char* const prefix = kind == PluginKind::net ? "libnccl-net" : "libnccl-tuner";
  if (wanted == "none") return {};
  if (wanted.empty()) {
    const std::string file = format("{}.so", prefix);
    FoundPlugin found = open_plugin(kind, file);
    // One that is not installed; a library that it needs is another matter.
    if (found.missing.starts_with(file + ": cannot open")) found.missing.clear();
    return found;
  }
  std::string tried;
  for (const std::string_view name : split(wanted, ',')) {
    if (name.empty()) continue;
    FoundPlugin found = open_plugin(kind, plugin_file(prefix, std::string(name)));
    if (found.version != 0) return found;
    tried += (tried.empty() ? "" : "; ") + found.missing;
  }
  return {.path = "", .version = 0, .missing = tried};
}

}  // namespace collctl::base::drivers
