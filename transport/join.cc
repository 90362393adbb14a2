#include "transport/join.h"

#include <optional>
#include <string_view>
#include <vector>

#include "transport/mesh_connect.h"
#include "transport/stores.h"

namespace gimbal {
namespace {

// After a fault rank 0 waits this long for the others to have read it: its store may end with it.
constexpr int64_t kFaultReadersMs = 500;

std::string duration_text(int64_t ms) {
  if (ms < 1000) return std::to_string(ms) + " ms";
  std::string text = std::to_string(ms / 1000);
  if (ms % 1000 >= 100) text += "." + std::to_string(ms % 1000 / 100);
  return text + " s";
}

std::string version_text(uint32_t version) {
  return std::to_string(version >> 16) + "." + std::to_string((version >> 8) & 255) + "." + std::to_string(version & 255);
}

std::string rank_text(Rank rank) { return "rank " + std::to_string(rank); }

std::string process_text(const JoinRecord& record) { return "pid " + std::to_string(record.pid) + " on host " + record.host; }

// The arrivals of one round, by rank, compared with those before them.
class Arrivals {
 public:
  explicit Arrivals(Rank size) : records_(static_cast<size_t>(size)) {}

  Status add(const JoinRecord& record) {
    for (const std::optional<JoinRecord>& other : records_) {
      if (!other) continue;
      RETURN_IF_ERROR(other->rank < record.rank ? compare(*other, record) : compare(record, *other));
    }
    if (record.rank < 0 || record.rank >= static_cast<Rank>(records_.size())) {
      return {Code::kMismatch, rank_text(record.rank) + " (" + process_text(record) + ") joined a world of size " +
                                   std::to_string(records_.size())};
    }
    records_[static_cast<size_t>(record.rank)] = record;
    ++joined_;
    return {};
  }

  [[nodiscard]] bool complete() const { return joined_ == records_.size(); }

  [[nodiscard]] Status missing(int64_t waited_ms) const {
    std::string ranks;
    for (size_t i = 0; i < records_.size(); ++i) {
      if (!records_[i]) ranks += (ranks.empty() ? "" : ", ") + std::to_string(i);
    }
    if (ranks.size() > kMaxSentenceBytes / 2) ranks = ranks.substr(0, ranks.find(',', kMaxSentenceBytes / 2)) + ", ...";
    return {Code::kTimeout, "missing ranks: " + ranks + " (" + std::to_string(joined_) + " of " +
                                std::to_string(records_.size()) + " joined within " + duration_text(waited_ms) + ")"};
  }

  [[nodiscard]] Roster roster() const {
    Roster roster{.nonce = random_nonce(), .records = {}};
    for (const std::optional<JoinRecord>& record : records_) roster.records.push_back(*record);
    return roster;
  }

 private:
  static Status compare(const JoinRecord& a, const JoinRecord& b) {
    if (a.version != b.version) {
      return {Code::kMismatch, "version " + version_text(a.version) + " on " + rank_text(a.rank) + ", " +
                                   version_text(b.version) + " on " + rank_text(b.rank)};
    }
    if (a.size != b.size) {
      return {Code::kMismatch, "world size " + std::to_string(a.size) + " on " + rank_text(a.rank) + ", " +
                                   std::to_string(b.size) + " on " + rank_text(b.rank)};
    }
    if (a.rank != b.rank) return check_way(a, b);
    const std::string first = a.host == b.host ? "pid " + std::to_string(b.pid) : process_text(b);
    return {Code::kMismatch, rank_text(a.rank) + " joined twice (" + first + " and " + process_text(a) + ")"};
  }

  // A rank without an address can only meet those that share its abstract sockets.
  static Status check_way(const JoinRecord& a, const JoinRecord& b) {
    if (network_of(a) == network_of(b) || (!a.candidates.empty() && !b.candidates.empty())) return {};
    const JoinRecord& alone = a.candidates.empty() ? a : b;
    return {Code::kSystem,
            describe(a) + " and " + describe(b) +
                " cannot reach each other: they share no memory, and no usable network interface is up on host " + alone.host};
  }

  // A node's text ends with its process-id namespace, on which sockets do not depend.
  static std::string_view network_of(const JoinRecord& record) {
    return std::string_view(record.node).substr(0, record.node.rfind('/'));
  }

  std::vector<std::optional<JoinRecord>> records_;
  size_t joined_ = 0;
};

class Joining {
 public:
  Joining(Store& store, const JoinRecord& self, Deadline deadline)
      : store_(store), self_(self), deadline_(deadline), timeout_ms_(deadline.remaining_ms()) {}

  Result<Roster> run() {
    ASSIGN_OR_RETURN(const int64_t arrival, store_.add("arrivals", 1));
    if (arrival < 1) return Status(Code::kInternal, "the store's counter of arrivals is " + std::to_string(arrival));
    RETURN_IF_ERROR(store_.set(arrival_key(arrival), encode(self_)));
    round_ = (arrival - 1) / self_.size;
    return self_.rank == 0 ? decide() : follow();
  }

 private:
  static std::string arrival_key(int64_t arrival) { return "arrival/" + std::to_string(arrival); }
  [[nodiscard]] std::string key(const std::string& name) const { return name + "/" + std::to_string(round_); }

  // Rank 0: the round's arrivals in their order.
  Result<Roster> decide() {
    Arrivals arrivals(self_.size);
    int64_t next = round_ * self_.size + 1;
    Status fault = collect(arrivals, next, deadline_);
    if (fault.code() == Code::kTimeout) fault = arrivals.missing(timeout_ms_);
    // Rank 0's own store does not go away: this one belongs to a rank 0 that came first, and whose round was complete.
    if (fault.code() == Code::kRemote) {
      return Status(Code::kMismatch,
                    "rank 0 joined twice: the other ranks had met the first one when " + process_text(self_) + " came");
    }
    if (fault.ok()) {
      JoinVerdict verdict;
      verdict.roster = arrivals.roster();
      RETURN_IF_ERROR(store_.set(key("verdict"), encode(verdict)));
      return *std::move(verdict.roster);
    }
    static_cast<void>(tell(fault));  // a store that has gone by now, with another rank 0, has told its ranks
    return fault;
  }

  Status tell(const Status& fault) {
    JoinVerdict verdict;
    verdict.fault = fault;
    ASSIGN_OR_RETURN(const int64_t arrived, store_.add("arrivals", 0));
    verdict.readers = arrived - round_ * self_.size - 1;
    RETURN_IF_ERROR(store_.set(key("verdict"), encode(verdict)));
    ASSIGN_OR_RETURN(const int64_t readers, store_.add(key("fault-readers"), 0));
    if (readers >= verdict.readers) return {};
    // Not longer: some of them may have ended. Whether all have read it changes nothing here.
    return store_.wait(key("fault-read"), Deadline::after_ms(kFaultReadersMs));
  }

  // The first fault; TIMEOUT when an arrival does not come.
  Status collect(Arrivals& arrivals, int64_t& next, Deadline deadline) {
    while (!arrivals.complete()) {
      ASSIGN_OR_RETURN(const Bytes bytes, store_.get(arrival_key(next), deadline));
      ++next;
      const std::optional<JoinRecord> record = parse_join_record(bytes);
      if (!record) return {Code::kInternal, "the store holds a malformed record of a rank that joined"};
      RETURN_IF_ERROR(arrivals.add(*record));
    }
    return {};
  }

  Result<Roster> follow() {
    Result<Bytes> bytes = store_.get(key("verdict"), deadline_);
    if (!bytes.ok()) return bytes.status().code() == Code::kTimeout ? late() : bytes.status();
    std::optional<JoinVerdict> verdict = parse_join_verdict(*bytes);
    if (!verdict) return Status(Code::kInternal, "rank 0 answered with a malformed roster");
    if (!verdict->roster) {
      static_cast<void>(count_as_reader());  // rank 0 may have seen the count and gone with the store
      return verdict->fault;
    }
    if (static_cast<Rank>(verdict->roster->records.size()) != self_.size) {
      return Status(Code::kMismatch, "world size " + std::to_string(verdict->roster->records.size()) + " on rank 0, " +
                                         std::to_string(self_.size) + " on " + rank_text(self_.rank));
    }
    return *std::move(verdict->roster);
  }

  // The last reader lets rank 0 go. A rank at its deadline counts too: it reads no more.
  Status count_as_reader() {
    ASSIGN_OR_RETURN(const int64_t readers, store_.add(key("fault-readers"), 1));
    const Result<Bytes> bytes = store_.get(key("verdict"), Deadline::after_ms(0));
    if (!bytes.ok()) return {};
    const std::optional<JoinVerdict> verdict = parse_join_verdict(*bytes);
    return verdict && readers == verdict->readers ? store_.set(key("fault-read"), {}) : Status();
  }

  // Rank 0 has not spoken: what is wrong is read from the arrivals.
  Status late() {
    Status fault = read_fault_from_arrivals();
    static_cast<void>(count_as_reader());  // a store that has ended by now has nobody waiting
    return fault;
  }

  Status read_fault_from_arrivals() {
    Arrivals arrivals(self_.size);
    int64_t next = round_ * self_.size + 1;
    Status fault = collect(arrivals, next, Deadline::after_ms(0));
    if (fault.code() == Code::kTimeout) return arrivals.missing(timeout_ms_);
    if (!fault.ok()) return fault;
    return {Code::kTimeout, "rank 0 did not answer within " + duration_text(timeout_ms_) + ", though all ranks joined"};
  }

  Store& store_;
  const JoinRecord& self_;
  const Deadline deadline_;
  const int64_t timeout_ms_;
  int64_t round_ = 0;
};

}  // namespace

Result<Roster> join(Store& store, const std::string& name, const JoinRecord& self, Deadline deadline) {
  const std::unique_ptr<Store> own_keys = make_prefix_store(store, "gimbal/" + name + "/");
  return Joining(*own_keys, self, deadline).run();
}

}  // namespace gimbal
