// How a report came about: by which version, when, and by which line. begin_provenance() is called
// once, before other threads start; everything else from any thread.
#pragma once
#include <string>
#include <vector>

#include "base/json_writer.h"
#include "base/record.h"

namespace collctl::cmd {

struct Provenance {
  std::string version = {};
  std::string date = {};     // when the command began: ISO 8601 with the zone, to the second
  std::string command = {};  // as a shell takes it, with "..." for what may be a secret
};
// Absent keys are empty, as in reports of earlier versions.
void fields(Record& io, Provenance& made);

// Provenance of this process; until it has begun no more than the version.
const Provenance& provenance();
void begin_provenance(const std::vector<std::string>& arguments);
// Seconds since then; 0: never.
double seconds_since_begin();

// Begins an object with the schema and how it was made; it stays open.
JsonWriter& begin_document(JsonWriter& json, const char* schema);
// The same of an object that was begun.
JsonWriter& continue_document(JsonWriter& json, const char* schema);

// Values whose names say that they are secret (NAME=VALUE, --name VALUE, --name=VALUE) become
// "...". At most 4 KiB.
std::string line_without_secrets(const std::vector<std::string>& arguments);

}  // namespace collctl::cmd
