#include "cmd/job/launch_json.h"

namespace collctl::cmd {

void write_launch(JsonWriter& json, const std::vector<HostEnd>& hosts) {
  if (hosts.empty()) return;
  json.key("launch").begin_object().key("hosts").begin_array();
  for (const HostEnd& host : hosts) {
    json.begin_object().field("host", host.host).field("phase", host.phase);
    json.key("ranks").begin_array();
    for (const int rank : host.ranks) json.value(rank);
    json.end_array();
    if (!host.client.empty()) json.field("client", host.client);
    // Seconds from the start at which each phase was reached.
    json.key("reached_s").begin_object();
    const auto reached = [&](const char* name, double at) {
      if (at >= 0) json.field(name, at);
    };
    reached("connecting", host.times.connecting);
    reached("authenticating", host.times.authenticating);
    reached("starting", host.times.starting);
    reached("staging", host.times.staging);
    reached("up", host.times.up);
    reached("bootstrapping", host.bootstrapping);
    reached("running", host.running);
    reached("done", host.done);
    json.end_object();
    json.field("staged", host.times.staging >= 0);
    if (host.error) {
      json.field("error", host.error->chain());
      json.field("code", base::code_name(host.error->code));
      if (!host.error->hint.empty()) json.field("hint", host.error->hint);
    }
    json.end_object();
  }
  json.end_array().end_object();
}

}  // namespace collctl::cmd
