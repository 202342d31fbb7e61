#include "launcher/adopt/pmix.h"

#include <dlfcn.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/format.h"
#include "base/wait.h"

namespace collctl::launcher {
namespace {

using pmix::Info;
using pmix::Proc;
using pmix::Value;

constexpr const char* kWithout = "COLLCTL_COMM_ID and COLLCTL_TOKEN work without the engine's PMIx";

template <size_t N>
void copy_text(char (&to)[N], const char* from) {
  std::memset(to, 0, N);
  std::memcpy(to, from, std::min(std::strlen(from), N - 1));
}

// The library's own deadline, a little before ours: then it can still say what was missing.
Info timeout_info(Deadline deadline) {
  Info info{};
  copy_text(info.key, pmix::kTimeout);
  info.value.type = pmix::kTypeInt;
  info.value.data.integer = int(std::max<int64_t>(1, deadline.remaining_ns() / 1'000'000'000));
  return info;
}

}  // namespace

struct PmixClient::Library {
  int (*init)(Proc*, Info*, size_t) = nullptr;
  int (*finalize)(const Info*, size_t) = nullptr;
  int (*put)(uint8_t, const char*, Value*) = nullptr;
  int (*commit)() = nullptr;
  int (*fence)(const Proc*, size_t, const Info*, size_t) = nullptr;
  int (*get)(const Proc*, const char*, const Info*, size_t, Value**) = nullptr;
  const char* (*error_string)(int) = nullptr;
  Proc self{};  // filled by init

  Status load();
};

// Never unloaded: its own threads may still run.
Status PmixClient::Library::load() {
  void* const handle = ::dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = ::dlerror();
    return Error(
        ErrorCode::unavailable,
        format("this engine's ranks rendezvous by PMIx, and its library cannot be loaded: {}",
               why != nullptr ? why : "libpmix.so.2"),
        format("install libpmix2 on every host, or add its folder to LD_LIBRARY_PATH; {}",
               kWithout));
  }
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(handle, name));
    return function != nullptr;
  };
  if (find(init, "PMIx_Init") && find(finalize, "PMIx_Finalize") && find(put, "PMIx_Put") &&
      find(commit, "PMIx_Commit") && find(fence, "PMIx_Fence") && find(get, "PMIx_Get") &&
      find(error_string, "PMIx_Error_string"))
    return {};
  return Error(ErrorCode::unavailable, "libpmix.so.2 lacks functions of the PMIx standard",
               kWithout);
}

// One thread that does one call after the other.
struct PmixClient::Worker {
  std::mutex mutex;
  std::condition_variable changed;
  std::function<int()> work;  // set: to be done
  bool done = false, stopping = false, stuck = false;
  int result = 0;
  std::thread thread;

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      // Ends with work or with the store.
      while (!base::wait_for(changed, lock, Deadline::after_seconds(3600),
                             [&] { return stopping || work; })) {
      }
      if (stopping) return;
      const std::function<int()> todo = std::move(work);
      work = nullptr;
      lock.unlock();
      const int got = todo();
      lock.lock();
      result = got;
      done = true;
      changed.notify_all();
    }
  }
};

PmixClient::PmixClient() : library_(new Library), worker_(new Worker) {}

PmixClient::~PmixClient() {
  if (!worker_->thread.joinable()) return;
  {
    const std::lock_guard lock(worker_->mutex);
    worker_->stopping = true;
  }
  worker_->changed.notify_all();
  if (worker_->stuck)
    worker_->thread.detach();  // inside the library for good; it holds what it uses
  else
    worker_->thread.join();
}

Status PmixClient::call(const char* what, Deadline deadline, std::function<int()> work) {
  std::unique_lock lock(worker_->mutex);
  if (worker_->stuck)
    return Error(ErrorCode::deadline, format("PMIx is stuck in an earlier call: no {}", what));
  worker_->done = false;
  worker_->work = std::move(work);
  worker_->changed.notify_all();
  if (!base::wait_for(worker_->changed, lock, deadline, [&] { return worker_->done; })) {
    worker_->stuck = true;
    return Error(ErrorCode::deadline, format("{} did not return in time", what),
                 format("not every rank of this job has arrived: all must run collctl; or the "
                        "engine is in trouble: {}",
                        kWithout));
  }
  if (worker_->result == pmix::kSuccess) return {};
  const char* const text = library_->error_string(worker_->result);
  return Error(ErrorCode::lost,
               format("{} failed: {} ({})", what, text != nullptr ? text : "?", worker_->result),
               kWithout);
}

Status PmixClient::connect(Deadline deadline) {
  const auto library = library_;
  // A connection that fails is this host's affair, not a rank's.
  if (Status s = call("PMIx_Init", deadline,
                      [library] { return library->init(&library->self, nullptr, 0); });
      !s) {
    if (s.error().code == ErrorCode::lost) s.error().code = ErrorCode::unavailable;
    return s;
  }
  rank_ = int(library->self.rank);
  const auto size = std::make_shared<uint32_t>(0);
  COLL_TRY(call("PMIx_Get of the job's size", deadline, [library, size] {
    Proc all = library->self;
    all.rank = pmix::kRankWildcard;
    Value* value = nullptr;
    const int rc = library->get(&all, pmix::kJobSize, nullptr, 0, &value);
    if (rc != pmix::kSuccess || value == nullptr) return rc;
    if (value->type == pmix::kTypeUint32) *size = value->data.uint32;
    std::free(value);
    return rc;
  }));
  size_ = int(*size);
  if (rank_ >= 0 && rank_ < size_) return {};
  return Error(ErrorCode::lost, format("PMIx gives no valid rank: rank {}, size {}", rank_, size_),
               kWithout);
}

Result<std::unique_ptr<PmixClient>> PmixClient::open(const Lookup& environment, Deadline deadline) {
  for (const char* name : {"PMIX_NAMESPACE", "PMIX_RANK"})
    if (environment(name).value_or("").empty())
      return Error(ErrorCode::usage, format("{} is not set: not started by a PMIx engine", name));
  std::unique_ptr<PmixClient> client(new PmixClient);
  COLL_TRY(client->library_->load());
  const auto worker = client->worker_;
  worker->thread = std::thread([worker] { worker->run(); });
  COLL_TRY(client->connect(deadline));
  return client;
}

Status PmixClient::put(const std::string& key, const std::string& value, Deadline deadline) {
  const auto library = library_;
  return call("PMIx_Put", deadline, [library, key, value] {
    std::string text = value;
    Value v{};
    v.type = pmix::kTypeString;
    v.data.string = text.data();
    return library->put(pmix::kScopeGlobal, key.c_str(), &v);
  });
}

Status PmixClient::fence(Deadline deadline) {
  const auto library = library_;
  COLL_TRY(call("PMIx_Commit", deadline, [library] { return library->commit(); }));
  return call("PMIx_Fence", deadline, [library, deadline] {
    Info infos[2] = {timeout_info(deadline), {}};
    copy_text(infos[1].key, pmix::kCollect);
    infos[1].value.type = pmix::kTypeBool;
    infos[1].value.data.flag = true;
    Proc all = library->self;
    all.rank = pmix::kRankWildcard;
    return library->fence(&all, 1, infos, 2);
  });
}

Result<std::string> PmixClient::get(int from_rank, const std::string& key, Deadline deadline) {
  const auto library = library_;
  const auto text = std::make_shared<std::string>();
  COLL_TRY(call("PMIx_Get", deadline, [library, deadline, from_rank, key, text] {
    Proc from = library->self;
    from.rank = uint32_t(from_rank);
    const Info info = timeout_info(deadline);
    Value* value = nullptr;
    const int rc = library->get(&from, key.c_str(), &info, 1, &value);
    if (rc != pmix::kSuccess || value == nullptr) return rc;
    if (value->type == pmix::kTypeString && value->data.string != nullptr) {
      text->assign(value->data.string, ::strnlen(value->data.string, 1 << 16));
      std::free(value->data.string);
    }
    std::free(value);
    return rc;
  }));
  return *text;
}

Status PmixClient::finish(Deadline deadline) {
  const auto library = library_;
  return call("PMIx_Finalize", deadline, [library] { return library->finalize(nullptr, 0); });
}

}  // namespace collctl::launcher
