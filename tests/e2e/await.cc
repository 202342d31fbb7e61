// End-to-end scripts wait with this: until each of its cues, in turn, has been seen. It looks by
// itself every 15 ms, without a process a look, for 120 s at most; a limit only says "not for
// ever", and is no measure of anything. Code 0: seen; the pids that the last `proc` found are
// printed. Code 1: what was waited for, and what was there at last. Code 2: usage.
//
//   await [-t SECONDS] [-of PID] CUE [-- CUE]...     -of: the end of this process ends the wait
//   file PATH                there is such a file
//   line PATH ERE [N]        N lines (1) of a file are like the expression
//   end PID                  the process has ended (its parent may not have asked yet)
//   proc PID ERE [N]         a process is like it, or exactly N are (the line of one:
//                            "PID PARENT STATE NAME ARGUMENTS")
//   quiet PID [HOME]         nothing of a job is left: no process (of a host in a PID namespace),
//                            no file in /dev/shm, no half-sent binary in HOME's cache
//   status PID ERE           the launcher answers who asks for its status with text like it
//   moves PID N              each of its ranks has begun N operations more than when it was first
//   asked
// Processes and files are those that process PID sees (0: this one), by its root and its /proc; on
// a host that shares this machine's PIDs (head) `quiet` looks at those in its network.
#include <dirent.h>
#include <regex.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using Words = std::vector<std::string>;
using Clock = std::chrono::steady_clock;

struct Pattern {
  explicit Pattern(const std::string& text) {
    if (::regcomp(&compiled, text.c_str(), REG_EXTENDED | REG_NOSUB) != 0)
      throw std::invalid_argument("no regular expression: " + text);
  }
  ~Pattern() { ::regfree(&compiled); }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;
  bool matches(const std::string& text) const {
    return ::regexec(&compiled, text.c_str(), 0, nullptr, 0) == 0;
  }
  regex_t compiled;
};

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

Words names_in(const std::string& path) {
  Words names;
  DIR* const folder = ::opendir(path.c_str());
  if (folder == nullptr) return names;
  while (const dirent* entry = ::readdir(folder))
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0)
      names.push_back(entry->d_name);
  ::closedir(folder);
  return names;
}

std::string link_of(const std::string& path) {
  char text[256];
  const ssize_t n = ::readlink(path.c_str(), text, sizeof text);
  return n < 0 ? "" : std::string(text, size_t(n));
}

std::string root_of(int pid) {
  return pid == 0 ? "" : "/proc/" + std::to_string(pid) + "/root";
}

struct Process {
  std::string pid, line;
  char state = '?';
};

// Empty: it has gone.
Process process_in(const std::string& proc, const std::string& pid) {
  // "PID (NAME) STATE PARENT ...", where a name may have anything in it.
  const std::string stat = content(proc + pid + "/stat");
  const size_t from = stat.find('('), to = stat.rfind(')');
  if (from == std::string::npos || to == std::string::npos || to + 4 > stat.size()) return {};
  const std::string parent = stat.substr(to + 4, stat.find(' ', to + 4) - to - 4);
  std::string arguments = content(proc + pid + "/cmdline");
  std::replace(arguments.begin(), arguments.end(), '\0', ' ');
  while (!arguments.empty() && arguments.back() == ' ') arguments.pop_back();
  Process found{pid, "", stat[to + 2]};
  found.line = pid + " " + parent + " " + found.state + " " + stat.substr(from + 1, to - from - 1) +
               " " + arguments;
  return found;
}

std::vector<Process> processes(const std::string& root) {
  std::vector<Process> found;
  const std::string proc = root + "/proc/";
  for (const std::string& name : names_in(proc))
    if (std::isdigit(static_cast<unsigned char>(name[0])) != 0)
      if (Process process = process_in(proc, name); !process.pid.empty()) found.push_back(process);
  return found;
}

// The finding of a look: whether it is the cue, and what to say when it never comes.
struct Seen {
  bool cue = false;
  std::string what;
};

Seen lines_like(const std::string& path, const Pattern& pattern, size_t wanted) {
  std::ifstream in(path);
  if (!in) return {false, "no such file"};
  size_t count = 0;
  std::string last;
  for (std::string line; std::getline(in, line); last = line) count += pattern.matches(line);
  return {count >= wanted, std::to_string(count) + " such lines; the last line is: " + last};
}

std::vector<std::string> found_pids;

Seen processes_like(int pid, const Pattern& pattern, int wanted) {
  Seen seen;
  found_pids.clear();
  for (const Process& process : processes(root_of(pid))) {
    if (process.state == 'Z') continue;
    if (pattern.matches(process.line)) found_pids.push_back(process.pid);
    if (pid != 0) seen.what += "\n    " + process.line;
  }
  seen.cue = wanted < 0 ? !found_pids.empty() : int(found_pids.size()) == wanted;
  seen.what = std::to_string(found_pids.size()) + " such processes" +
              (seen.what.empty() ? "" : " of these:") + seen.what;
  return seen;
}

Seen nothing_left(int pid, const std::string& home) {
  static const Pattern own("^1 |^[0-9]+ [0-9]+ . sshd|^[0-9]+ [0-9]+ . sleep sleep infinity$");
  static const Pattern of_job("^[0-9]+ [0-9]+ . collctl");
  Seen seen;
  const std::string root = root_of(pid), net = "/ns/net", space = "/ns/pid";
  const std::string here = "/proc/" + std::to_string(pid);
  const bool shares_pids = link_of(here + space + "_for_children") == link_of("/proc/self" + space);
  for (const Process& process : processes(root)) {
    const bool its = shares_pids ? of_job.matches(process.line) &&
                                       link_of("/proc/" + process.pid + net) == link_of(here + net)
                                 : !own.matches(process.line);
    if (its) seen.what += "\n    " + process.line;
  }
  for (const std::string& name : names_in(root + "/dev/shm")) seen.what += "\n    /dev/shm/" + name;
  for (const char* folder : {"/.cache", "/.cache/collctl"})
    for (const std::string& name : home.empty() ? Words() : names_in(home + folder))
      if (name.starts_with(".collctl")) seen.what += "\n    " + home + folder + "/" + name;
  seen.cue = seen.what.empty();
  return seen;
}

// The launcher's words at its door (cmd/job/status_door.h); empty: it has none, or says nothing.
std::string status_of(int pid) {
  const std::string folder = root_of(pid) + "/dev/shm/collctl-" + std::to_string(::geteuid());
  const std::string end = "-" + std::to_string(pid) + "-57a70000";
  for (const std::string& name : names_in(folder)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = folder + "/" + name;
    if (!name.ends_with(end) || path.size() >= sizeof address.sun_path) continue;
    path.copy(address.sun_path, path.size());
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const timeval limit{10, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    std::string text;
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      char part[4096];
      for (ssize_t n = 0; (n = ::recv(fd, part, sizeof part, 0)) > 0;) text.append(part, size_t(n));
    }
    ::close(fd);
    return text;
  }
  return "";
}

std::vector<long> calls_in(const std::string& status) {
  std::vector<long> calls;
  const std::string key = "\"calls\":";
  for (size_t at = status.find(key); at != std::string::npos; at = status.find(key, at + 1))
    calls.push_back(std::atol(status.c_str() + at + key.size()));
  return calls;
}

Seen ranks_move(int pid, long by, std::vector<long>& first) {
  const std::vector<long> now = calls_in(status_of(pid));
  std::string said;
  for (const long calls : now) said += " " + std::to_string(calls);
  if (now.size() != first.size()) first = now;  // not all ranks have said something yet
  bool moved = !now.empty();
  for (size_t i = 0; i < now.size(); ++i) moved = moved && now[i] >= first[i] + by;
  return {moved, "operations begun, by rank:" + said};
}

int number(const std::string& text) {
  char* end = nullptr;
  const long value = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != 0 || value < 0 || value > 1 << 30)
    throw std::invalid_argument("no number: '" + text + "'");
  return int(value);
}

std::function<Seen()> look_for(const Words& cue) {
  const std::string kind = cue.empty() ? "" : cue[0];
  const size_t n = cue.size();
  if (kind == "file" && n == 2)
    return [path = cue[1]] { return Seen{::access(path.c_str(), F_OK) == 0, "it is not there"}; };
  if (kind == "end" && n == 2)
    return [pid = std::to_string(number(cue[1]))] {
      const Process process = process_in("/proc/", pid);
      return Seen{process.pid.empty() || process.state == 'Z', process.line};
    };
  if (kind == "quiet" && (n == 2 || n == 3))
    return [pid = number(cue[1]), home = n == 3 ? cue[2] : ""] { return nothing_left(pid, home); };
  if (kind == "moves" && n == 3)
    return [pid = number(cue[1]), by = number(cue[2]), first = std::vector<long>()]() mutable {
      return ranks_move(pid, by, first);
    };
  if (n < 3 || n > 4) throw std::invalid_argument("no cue: " + kind);
  const auto pattern = std::make_shared<Pattern>(cue[2]);
  const int count = n == 4 ? number(cue[3]) : -1;
  if (kind == "line")
    return [=, path = cue[1]] { return lines_like(path, *pattern, count < 0 ? 1 : size_t(count)); };
  if (kind == "proc")
    return [=, pid = number(cue[1])] { return processes_like(pid, *pattern, count); };
  if (kind == "status" && n == 3)
    return [=, pid = number(cue[1])] {
      const std::string said = status_of(pid);
      return Seen{pattern->matches(said), "it says: " + said.substr(0, 2000)};
    };
  throw std::invalid_argument("no cue: " + kind);
}

int await(const Words& words) {
  double seconds = 120;
  size_t at = 0;
  std::function<Seen()> over;  // -of
  for (; at + 1 < words.size() && words[at].starts_with('-'); at += 2) {
    if (words[at] == "-t")
      seconds = number(words[at + 1]);
    else if (words[at] == "-of")
      over = look_for({"end", words[at + 1]});
    else
      throw std::invalid_argument("no option: " + words[at]);
  }
  const auto until = Clock::now() + std::chrono::duration<double>(seconds);
  while (at < words.size()) {
    const auto end = std::find(words.begin() + long(at), words.end(), "--");
    const Words cue(words.begin() + long(at), end);
    at = size_t(end - words.begin()) + 1;
    const std::function<Seen()> look = look_for(cue);
    for (;;) {
      // A process may bring the cue about just before it ends.
      const bool last = over && over().cue, late = Clock::now() > until;
      const Seen seen = look();
      if (seen.cue) break;
      if (last || late) {
        std::string said;
        for (const std::string& word : cue) said += " " + word;
        std::printf("await%s: %s: %s\n", said.c_str(),
                    last ? "the process that would bring it has ended" : "not in time",
                    seen.what.c_str());
        return 1;
      }
      const bool asks = cue[0] == "status" || cue[0] == "moves";  // which costs the job something
      std::this_thread::sleep_for(std::chrono::milliseconds(asks ? 100 : 15));
    }
  }
  for (const std::string& pid : found_pids) std::printf("%s\n", pid.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Words words(argv + 1, argv + argc);
    if (words.empty()) throw std::invalid_argument("nothing to wait for");
    return await(words);
  } catch (const std::exception& e) {
    std::printf("await: %s\n", e.what());
    return 2;
  }
}
