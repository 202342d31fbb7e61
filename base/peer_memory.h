// Reading the memory of another process of this host (process_vm_readv): one copy, which the reader
// makes. Whether it may is for its kernel to say (users, Yama's ptrace_scope, seccomp, PID
// namespaces), so it is tried before anybody relies on it. Threads: any.
#pragma once
#include <cstdint>
#include <string>

namespace collctl::base {

// A word of a process, for others to try: whoever finds `value` at `address` can read it, and has
// the right process.
struct MemoryMark {
  uint64_t address = 0;  // 0: not to be read
  uint64_t value = 0;
};

// This process's; made when first asked for, and as long as the process. Where Yama keeps siblings
// apart it allows its parent and whatever that started (not all processes of the user). Address 0
// where the kernel does not even let a process read itself.
MemoryMark memory_mark();

// Tries to read the mark of the process `pid`. Empty: it can be read; else why not, in words.
std::string why_unreadable(int pid, const MemoryMark& mark);

// Copies `bytes` from address `from` of the process `pid`. 0, or the errno: ESRCH when the process
// is gone, EFAULT where it has no such memory; `to` may then have been written in part.
int read_memory(int pid, uint64_t from, void* to, uint64_t bytes);

}  // namespace collctl::base
