// A tuner plugin (libnccl-tuner-*.so, by NCCL's interface of any version in versions/table.h) as
// the planner's tuner: found, then used by a communicator from init to finalize. Libraries are
// never unloaded. The planner checks its answers.
//
// Threads: find_tuner_plugin() any; a PluginTuner is the communicator's that plans. Plugins are
// begun and ended one at a time.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/result.h"
#include "runtime/plan/shape.h"
#include "runtime/plan/tuner.h"
#include "runtime/tuner/versions/calls.h"

namespace collctl::runtime {

// A library's structure, with all functions that are called.
struct TunerPlugin {
  std::shared_ptr<const TunerCalls> calls;  // null: there is none
  std::string library;                      // as it was opened
  std::string name;                         // as the plugin has it
  bool named = false;                       // by TUNER_PLUGIN, else it came with a network's plugin
  std::string text() const;                 // as Tuner::text(); "no tuner plugin"
  // For ranks to compare: name and version.
  std::string identity() const;
};
// The one of TUNER_PLUGIN (a path, a file's name, or NAME of libnccl-tuner-NAME.so; "none": none),
// or without that the one in `net_library`, the file of the network plugin in use; empty: none.
// Error unavailable: it was named and cannot be used.
Result<TunerPlugin> find_tuner_plugin(const std::string& net_library);

class PluginTuner final : public Tuner {
 public:
  // Rank 0 warns for all. `failed` hears of an error that ends the communicator (Tuner::refuse);
  // may be empty. Error unavailable: init fails.
  static Result<std::unique_ptr<PluginTuner>> start(const TunerPlugin& plugin,
                                                    uint64_t communicator, const HostGroups& hosts,
                                                    int rank,
                                                    std::function<void(const Error&)> failed = {});
  ~PluginTuner() override;
  PluginTuner(const PluginTuner&) = delete;
  PluginTuner& operator=(const PluginTuner&) = delete;

  const TunerPlugin& plugin() const { return plugin_; }
  const std::string& text() const override { return text_; }
  Result<TunerAnswer> ask(const TunerQuestion& question, const TunerTable& table) override;
  Status refuse(Error why) override;
  // For other choices: all is asked anew.
  void forget() { answers_.clear(); }

 private:
  PluginTuner(const TunerPlugin& plugin, int rank, std::function<void(const Error&)> failed)
      : plugin_(plugin), text_(plugin.text()), failed_(std::move(failed)), warns_(rank == 0) {}
  Status init(uint64_t communicator, const HostGroups& hosts);
  Error failure(const char* call, TunerCode code) const;

  TunerPlugin plugin_;
  std::string text_;
  std::function<void(const Error&)> failed_;
  void* context_ = nullptr;
  bool started_ = false, warns_;
  // By a hash of the question and the table.
  std::unordered_map<uint64_t, TunerAnswer> answers_;
};

}  // namespace collctl::runtime
