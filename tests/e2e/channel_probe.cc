// Opens channels to hosts, runs a command on each, and prints what became of them: for the
// end-to-end tests of the SSH clients.
//   channel_probe [options] HOST[,HOST...] COMMAND      one line "HOST key=value ..." and more for
//   each host
//     --client auto|libssh2|openssh  --known-hosts strict|accept-new|off  --config F  --user U
//     --port P
//     --key F  --jump J  --timeout S  --send N (bytes to standard input)  --hold (do not end it)
//     --limit S (fails, exit 9)  --ask
//   channel_probe --listen PORT [TEXT]   accepts connections, sends TEXT, stays silent
// Exit code: 0 all ended without error, 1 not so, 2 usage.
#include <sys/socket.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "base/socket.h"
#include "base/wait.h"
#include "launcher/ssh/channel.h"

using namespace collctl;
using launcher::ChannelPhase;

namespace {

struct Probe {
  launcher::HostTarget target;
  launcher::ChannelOptions options;
  std::string command;
  size_t send = 0;
  bool hold = false;
  double limit = 60;
};

struct Host {
  std::string name;
  std::unique_ptr<launcher::HostChannel> channel;
  uint64_t sent_sum = 14695981039346656037u, got_sum = sent_sum, got = 0;
  std::string head;  // the first of what it wrote
  size_t to_send = 0;
  uint32_t state = 1;
  int64_t open_ns = 0;
  bool closed = false, done = false;
};

void mix(uint64_t& sum, const uint8_t* data, size_t size) {
  for (size_t i = 0; i < size; ++i) sum = (sum ^ data[i]) * 1099511628211u;
}

const char* phase_name(ChannelPhase phase) {
  constexpr const char* kNames[] = {"connecting", "authenticating", "open", "ended", "failed"};
  return kNames[size_t(phase)];
}

void send_more(Host& h, bool hold) {
  while (h.to_send > 0 && h.channel->pending() < 4 << 20) {
    std::vector<uint8_t> piece(std::min<size_t>(h.to_send, 65536));
    for (uint8_t& byte : piece) {
      h.state = h.state * 1664525u + 1013904223u;
      byte = uint8_t(h.state >> 24);
    }
    mix(h.sent_sum, piece.data(), piece.size());
    h.channel->write(piece);
    h.to_send -= piece.size();
  }
  if (h.to_send == 0 && !h.closed && !hold) {
    h.channel->close_input();
    h.closed = true;
  }
}

void report(Host& h, int64_t start) {
  std::printf("%s phase=%s", h.name.c_str(), phase_name(h.channel->phase()));
  if (const auto code = h.channel->exit_code()) std::printf(" exit=%d", *code);
  std::printf(" open_s=%.3f seconds=%.3f bytes=%lu echo=%s\n",
              h.open_ns == 0 ? -1.0 : double(h.open_ns - start) / 1e9,
              double(now_ns() - start) / 1e9, h.got, h.got_sum == h.sent_sum ? "same" : "differs");
  std::printf("%s by: %s\n", h.name.c_str(), h.channel->description().c_str());
  if (!h.head.empty()) std::printf("%s out: %s\n", h.name.c_str(), h.head.c_str());
  if (!h.channel->errors().empty())
    std::printf("%s err: %s\n", h.name.c_str(), h.channel->errors().c_str());
  if (const auto e = h.channel->error()) {
    std::printf("%s error: %s [%s, host %s]\n", h.name.c_str(), e->chain().c_str(),
                base::code_name(e->code), e->host.c_str());
    std::printf("%s hint: %s\n", h.name.c_str(), e->hint.c_str());
  }
  std::fflush(stdout);
}

void step(Host& h, const Probe& probe, int64_t start) {
  h.channel->progress();
  const ChannelPhase phase = h.channel->phase();
  if (h.open_ns == 0 && phase >= ChannelPhase::open && phase != ChannelPhase::failed)
    h.open_ns = now_ns();
  send_more(h, probe.hold);
  std::string& out = h.channel->output();
  mix(h.got_sum, reinterpret_cast<const uint8_t*>(out.data()), out.size());
  h.got += out.size();
  if (h.head.size() < 400) h.head += out.substr(0, 400 - h.head.size());
  out.clear();
  if (phase != ChannelPhase::ended && phase != ChannelPhase::failed) return;
  h.done = true;
  report(h, start);
}

int probe_hosts(const Probe& probe, const std::string& names) {
  std::vector<Host> hosts;
  const int64_t start = now_ns();
  for (size_t at = 0; at <= names.size();) {
    const size_t comma = std::min(names.find(',', at), names.size());
    launcher::HostTarget target = probe.target;
    target.name = names.substr(at, comma - at);
    auto channel = launcher::open_ssh_channel(target, probe.options, probe.command);
    if (!channel) {
      std::printf("%s error: %s\n", target.name.c_str(), channel.error().chain().c_str());
      return 2;
    }
    Host h;
    h.name = target.name;
    h.channel = std::move(channel.value());
    h.to_send = probe.send;
    hosts.push_back(std::move(h));
    at = comma + 1;
  }
  const Deadline deadline = Deadline::after_seconds(probe.limit);
  while (!deadline.passed()) {
    Deadline wakeup = deadline;
    std::vector<pollfd> fds;
    bool all_done = true;
    for (Host& h : hosts) {
      if (h.done) continue;
      step(h, probe, start);
      if (h.done) continue;
      all_done = false;
      h.channel->add_interest(fds);
      wakeup = wakeup.earlier(h.channel->wakeup());
    }
    if (all_done) {
      bool good = true;
      for (const Host& h : hosts) good = good && !h.channel->error() && h.channel->exit_code() == 0;
      return good ? 0 : 1;
    }
    if (!base::poll_fds(fds, wakeup)) return 3;
  }
  for (Host& h : hosts)
    if (!h.done) report(h, start);
  return 9;
}

int listen_silently(int port, const std::string& text) {
  auto address = base::parse_address("0.0.0.0:" + std::to_string(port));
  auto listener = base::listen_tcp(address.value());
  if (!listener) return 3;
  std::printf("listening\n");
  std::fflush(stdout);
  std::vector<base::Fd> connections;
  while (true) {
    pollfd p{listener.value().get(), POLLIN, 0};
    if (!base::poll_fds({&p, 1}, Deadline::after_seconds(60))) return 3;
    auto fd = base::accept_now(listener.value().get());
    if (!fd || !fd.value()) continue;
    if (!text.empty() && !base::write_some(fd.value().get(), text.data(), text.size())) continue;
    connections.push_back(std::move(fd.value()));
  }
}

bool parse(Probe& probe, std::vector<std::string>& words, int argc, char** argv) {
  using launcher::KnownHosts;
  using launcher::SshClient;
  const std::map<std::string, SshClient> clients = {{"auto", SshClient::automatic},
                                                    {"libssh2", SshClient::libssh2},
                                                    {"openssh", SshClient::openssh}};
  const std::map<std::string, KnownHosts> modes = {{"strict", KnownHosts::strict},
                                                   {"accept-new", KnownHosts::accept_new},
                                                   {"off", KnownHosts::off}};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--hold")
      probe.hold = true;
    else if (word == "--ask")
      probe.options.may_ask = true;
    else if (word.rfind("--", 0) != 0)
      words.push_back(word);
    else if (++i == argc)
      return false;
    else if (word == "--client" && clients.count(argv[i]) == 1)
      probe.options.client = clients.at(argv[i]);
    else if (word == "--known-hosts" && modes.count(argv[i]) == 1)
      probe.options.known_hosts = modes.at(argv[i]);
    else if (word == "--config")
      probe.options.config_file = argv[i];
    else if (word == "--user")
      probe.options.user = argv[i];
    else if (word == "--port")
      probe.target.port = std::atoi(argv[i]);
    else if (word == "--key")
      probe.options.identity = argv[i];
    else if (word == "--jump")
      probe.target.jump = argv[i];
    else if (word == "--timeout")
      probe.options.connect_timeout_s = std::atof(argv[i]);
    else if (word == "--send")
      probe.send = std::strtoul(argv[i], nullptr, 10);
    else if (word == "--limit")
      probe.limit = std::atof(argv[i]);
    else
      return false;
  }
  return words.size() == 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc >= 3 && std::string(argv[1]) == "--listen")
    return listen_silently(std::atoi(argv[2]), argc > 3 ? argv[3] : "");
  Probe probe;
  std::vector<std::string> words;
  if (!parse(probe, words, argc, argv)) return 2;
  probe.command = words[1];
  return probe_hosts(probe, words[0]);
}
