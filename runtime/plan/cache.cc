#include "runtime/plan/cache.h"

namespace collctl::runtime {
namespace {

bool same(const Operation& a, const Operation& b, bool patchable) {
  return a.count == b.count && a.collective == b.collective && a.type == b.type && a.op == b.op &&
         a.root == b.root && a.peer == b.peer && a.chunk_elements == b.chunk_elements &&
         (patchable || (a.input == b.input && a.output == b.output));
}

bool matches(const CachedPlan& entry, std::span<const Operation> operations) {
  if (entry.operations.size() != operations.size()) return false;
  for (size_t i = 0; i < operations.size(); ++i)
    if (!same(entry.operations[i], operations[i], entry.patchable)) return false;
  return true;
}

}  // namespace

CachedPlan* PlanCache::find(std::span<const Operation> operations) {
  if (matches(entries_[last_], operations)) return &entries_[last_];
  for (size_t i = 0; i < entries_.size(); ++i)
    if (matches(entries_[i], operations)) {
      last_ = i;
      return &entries_[i];
    }
  return nullptr;
}

Result<CachedPlan*> PlanCache::get(std::span<const Operation> operations, const CommShape& shape,
                                   const Choices& choices) {
  if (CachedPlan* entry = operations.empty() ? nullptr : find(operations)) {
    if (!entry->patchable) return entry;
    for (size_t i = 0; i < operations.size(); ++i) {
      const Operation& op = operations[i];
      COLL_TRY(check_operation(op, shape.rank, shape.nranks));
      for (kernels::Work& w : entry->plan.ops[i].works) {
        w.input = op.input;
        w.output = op.output;
      }
    }
    return entry;
  }
  COLL_ASSIGN(Plan plan, make_(operations, shape, choices));
  last_ = next_;
  next_ = (next_ + 1) % entries_.size();
  CachedPlan& entry = entries_[last_];
  entry.operations.assign(operations.begin(), operations.end());
  entry.plan = std::move(plan);
  entry.patchable = entry.plan.pairs.empty();
  entry.wired = false;
  entry.on_device.reset();
  return &entry;
}

void PlanCache::clear() {
  for (CachedPlan& entry : entries_) entry = {};
}

}  // namespace collctl::runtime
