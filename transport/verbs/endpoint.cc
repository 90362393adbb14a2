#include "transport/verbs/endpoint.h"

#include <algorithm>
#include <utility>

namespace gimbal {
namespace {

// Messages up to here do not take turns among the pairs: the first one's path through the caches is warm.
constexpr size_t kSmallBytes = size_t{16} << 10;
// Calls of progress(), each a look at the completions: several round trips.
constexpr uint32_t kIdleCalls = 200;
// Requests of one pair that may be under way: what a window has, but not more memory than a device likes to give.
constexpr size_t kMostSends = 512;

size_t lines(size_t bytes) { return (bytes + SlotLayout::kLineBytes - 1) / SlotLayout::kLineBytes * SlotLayout::kLineBytes; }

size_t reports_bytes(const SlotLayout& slots, size_t pairs) {
  return lines(ReportLayout{slots.channels, slots.window}.bytes() * pairs * pairs);
}

}  // namespace

size_t VerbsEndpoint::memory_bytes(const SlotLayout& slots, size_t pairs) {
  return 2 * (slots.bytes() + reports_bytes(slots, pairs));
}

VerbsEndpoint::VerbsEndpoint(VerbsPoller& poller, const VerbsEndpointOptions& options, size_t pairs)
    : options_(options),
      properties_{.cost = options.cost, .shares_memory = false},
      report_layout_{.channels = options.slots.channels, .window = options.slots.window},
      most_chunks_(options.slots.most_chunks()),
      poller_(poller),
      pairs_(pairs),
      send_slots_(poller.take_memory(options.slots.bytes())),
      receive_slots_(poller.take_memory(options.slots.bytes())),
      sent_reports_(poller.take_memory(reports_bytes(options.slots, pairs))),
      received_reports_(poller.take_memory(reports_bytes(options.slots, pairs))),
      sending_(options.slots.channels),
      receiving_(options.slots.channels, ReceiveLane(options.slots.window)),
      carriers_(options.slots.slots() * most_chunks_, kNoPair),
      waiting_(options.slots.slots() * most_chunks_),
      told_(options.ways.size()) {
  GIMBAL_DCHECK(pairs > 0 && pairs <= kMaxPairs);
  GIMBAL_DCHECK(options.slots.channels <= VerbsImmediate::kMaxChannels && options.slots.window <= VerbsImmediate::kMaxWindow);
}

Result<std::unique_ptr<VerbsEndpoint>> VerbsEndpoint::create(VerbsPoller& poller, const VerbsEndpointOptions& options) {
  const size_t pairs = options.ways.size() * options.settings.queue_pairs;
  std::unique_ptr<VerbsEndpoint> endpoint(new VerbsEndpoint(poller, options, pairs));
  RETURN_IF_ERROR(endpoint->make_pairs());
  return endpoint;
}

VerbsEndpoint::~VerbsEndpoint() {
  for (const Pair& pair : pairs_) {
    if (pair.queue != nullptr) poller_.forget(*pair.queue);
  }
}

Status VerbsEndpoint::make_pairs() {
  const size_t messages = options_.slots.slots();
  const size_t chunks = messages * most_chunks_;
  VerbsQueuePair::Options pair_options;
  pair_options.sends =
      static_cast<uint32_t>(std::clamp<size_t>(chunks + messages, 4 * VerbsQueuePair::kSignalEvery, kMostSends));
  // A chunk each of the window, a credit for each message, a report of each other pair, and the trial.
  pair_options.receives = static_cast<uint32_t>(chunks + messages + pairs_.size() + 1);
  pair_options.expected_completions =
      options_.expected_pairs * (pair_options.sends + pair_options.receives + VerbsQueuePair::kReceiveBatch);
  for (size_t i = 0; i < pairs_.size(); ++i) {
    pairs_[i].way = i / options_.settings.queue_pairs;
    ASSIGN_OR_RETURN(pairs_[i].queue, poller_.make_pair(options_.ways[pairs_[i].way].rail, *this, pair_options));
  }
  return {};
}

Bytes VerbsEndpoint::address() const {
  ByteWriter writer;
  writer.u64(reinterpret_cast<uintptr_t>(receive_slots_.data())).u64(reinterpret_cast<uintptr_t>(received_reports_.data()));
  for (const VerbsWay& way : options_.ways) writer.u32(poller_.rail(way.rail).remote_key());
  for (const Pair& pair : pairs_) writer.u32(pair.queue->number());
  return writer.take();
}

Status VerbsEndpoint::connect(std::span<const std::byte> peer_address) {
  ByteReader reader(peer_address);
  peer_slots_ = reader.u64();
  peer_reports_ = reader.u64();
  peer_keys_.reserve(options_.ways.size());
  for (size_t way = 0; way < options_.ways.size(); ++way) peer_keys_.push_back(reader.u32());
  for (Pair& pair : pairs_) {
    const uint32_t number = reader.u32();
    if (!reader.ok()) break;
    const VerbsWay& way = options_.ways[pair.way];
    const Status status = pair.queue->connect(number, way.route, options_.settings);
    if (!status.ok()) {
      return {Code::kRemote, options_.peer_name + " cannot be reached over " + way.name + ": " + status.message()};
    }
    ++pairs_up_;
  }
  if (!reader.finished()) return {Code::kInternal, options_.peer_name + " sent no address of its queue pairs"};
  return {};
}

void VerbsEndpoint::start_trial() {
  for (Pair& pair : pairs_) {
    const VerbsWay& way = options_.ways[pair.way];
    pair.queue->add({.from = send_slots_.data(),
                     .bytes = std::min<size_t>(mtu_bytes(way.route.mtu), send_slots_.size()),
                     .to = peer_slots_,
                     .remote_key = peer_keys_[pair.way],
                     .immediate = VerbsImmediate{.notice = VerbsNotice::kHello}.pack()});
    pair.queue->ring();
  }
}

Result<bool> VerbsEndpoint::trial_passed() {
  RETURN_IF_ERROR(poller_.look_in_turn(looked_));
  // A hello that was answered may still be on its way into the slots, where messages are to follow it.
  bool passed = hellos_ == pairs_.size();
  for (const Pair& pair : pairs_) {
    if (!pair.queue->is_up()) {
      return Status(Code::kRemote,
                    options_.peer_name + " cannot be reached over " + options_.ways[pair.way].name + ": " + pair.why);
    }
    passed = passed && !pair.queue->has_outstanding_data();
  }
  return passed;
}

Result<std::optional<std::span<std::byte>>> VerbsEndpoint::acquire(Channel channel, [[maybe_unused]] size_t bytes) {
  if (!error_.ok()) [[unlikely]]
    return error_;
  if (!lost_.ok()) [[unlikely]]
    return lost_;
  GIMBAL_DCHECK(channel < channels() && bytes <= slot_bytes());
  SendLane& lane = sending_[channel];
  if (lane.sent - lane.released >= window()) {
    starved_ = true;
    return std::optional<std::span<std::byte>>();
  }
  lane.acquired = true;
  const size_t at = options_.slots.payload_at(options_.slots.slot(channel, lane.sent));
  return std::optional(send_slots_.subspan(at, slot_bytes()));
}

Status VerbsEndpoint::commit(Channel channel, size_t bytes, uint64_t tag) {
  if (!error_.ok()) [[unlikely]]
    return error_;
  SendLane& lane = sending_[channel];
  GIMBAL_DCHECK(channel < channels() && bytes <= slot_bytes() && lane.acquired);
  ReceiveLane& receiving = receiving_[channel];
  lane.acquired = false;
  const uint32_t sequence = lane.sent++;
  header(send_slots_, options_.slots.slot(channel, sequence)) = {
      .tag = tag, .bytes = static_cast<uint32_t>(bytes), .sequence = sequence, .released = receiving.arrivals.released()};
  receiving.reported = receiving.arrivals.released();
  if (receiving.credit_due) --credits_due_;
  receiving.credit_due = false;
  const size_t chunks = options_.slots.chunks_of(bytes);
  for (size_t chunk = 0; chunk < chunks; ++chunk) wait_for_pair({channel, static_cast<uint8_t>(chunk), sequence});
  feed();
  return {};
}

void VerbsEndpoint::wait_for_pair(const Chunk& chunk) {
  GIMBAL_DCHECK(waiting_count_ < waiting_.size());
  carrier_of(options_.slots.slot(chunk.channel, chunk.sequence), chunk.number) = kNoPair;
  waiting_[(first_waiting_ + waiting_count_++) % waiting_.size()] = chunk;
}

uint8_t VerbsEndpoint::first_with_room() const {
  for (size_t i = 0; i < pairs_.size(); ++i) {
    if (pairs_[i].queue->is_up() && pairs_[i].queue->has_room()) return static_cast<uint8_t>(i);
  }
  return kNoPair;
}

uint8_t VerbsEndpoint::least_busy() const {
  uint8_t least = kNoPair;
  for (size_t i = 0; i < pairs_.size(); ++i) {
    const VerbsQueuePair& queue = *pairs_[i].queue;
    if (!queue.is_up() || !queue.has_room()) continue;
    if (least == kNoPair || queue.outstanding_bytes() < pairs_[least].queue->outstanding_bytes())
      least = static_cast<uint8_t>(i);
  }
  return least;
}

bool VerbsEndpoint::send_chunk(const Chunk& chunk) {
  const size_t slot = options_.slots.slot(chunk.channel, chunk.sequence);
  const SlotLayout::Piece piece = options_.slots.piece(slot, chunk.number, header(send_slots_, slot).bytes);
  const uint8_t index = piece.bytes <= kSmallBytes ? first_with_room() : least_busy();
  if (index == kNoPair) return false;
  carrier_of(slot, chunk.number) = index;
  const VerbsImmediate notice = {
      .notice = VerbsNotice::kData, .channel = chunk.channel, .chunk = chunk.number, .sequence = chunk.sequence};
  pairs_[index].queue->add({.from = send_slots_.data() + piece.at,
                            .bytes = piece.bytes,
                            .to = peer_slots_ + piece.at,
                            .remote_key = peer_keys_[pairs_[index].way],
                            .immediate = notice.pack()});
  return true;
}

void VerbsEndpoint::send_notice(Pair& pair, const VerbsImmediate& notice) {
  pair.queue->add({.to = peer_slots_, .remote_key = peer_keys_[pair.way], .immediate = notice.pack(), .is_data = false});
}

void VerbsEndpoint::send_credits() {
  for (size_t channel = 0; channel < receiving_.size() && credits_due_ > 0; ++channel) {
    ReceiveLane& lane = receiving_[channel];
    if (!lane.credit_due) continue;
    const uint8_t index = first_with_room();
    if (index == kNoPair) return;
    lane.credit_due = false;
    --credits_due_;
    lane.reported = lane.arrivals.released();
    send_notice(pairs_[index],
                {.notice = VerbsNotice::kCredit, .channel = static_cast<Channel>(channel), .sequence = lane.reported});
  }
}

void VerbsEndpoint::feed() {
  if (pairs_up_ < pairs_.size()) [[unlikely]]
    send_reports();
  if (credits_due_ > 0) send_credits();
  while (waiting_count_ > 0 && send_chunk(waiting_[first_waiting_])) {
    first_waiting_ = (first_waiting_ + 1) % waiting_.size();
    --waiting_count_;
  }
  for (const Pair& pair : pairs_) pair.queue->ring();
}

bool VerbsEndpoint::has_unsent() const {
  if (!error_.ok() || !lost_.ok()) return owes_data();
  return owes_data() || credits_due_ > 0 || reports_due();
}

bool VerbsEndpoint::has_arrived() const {
  if (!error_.ok() || !lost_.ok()) return true;
  if (waiting_count_ > 0) return false;
  return std::ranges::none_of(pairs_, [](const Pair& pair) {
    return pair.queue->is_up() ? pair.queue->has_outstanding_data() : pair.undelivered && !pair.peer_reported;
  });
}

void VerbsEndpoint::arrived(VerbsQueuePair& pair, uint32_t immediate, size_t bytes) {
  if (!error_.ok()) return;
  const VerbsImmediate notice = VerbsImmediate::unpack(immediate);
  std::string fault;
  if (notice.channel >= channels()) {
    fault = "sent a notice for channel " + std::to_string(notice.channel) + " of " + std::to_string(channels());
  } else {
    switch (notice.notice) {
      case VerbsNotice::kData: {
        ReceiveLane& lane = receiving_[notice.channel];
        const SlotHeader& arrived = header(receive_slots_, options_.slots.slot(notice.channel, lane.arrivals.full(notice)));
        fault = lane.arrivals.add(notice, bytes, options_.slots, arrived);
        if (fault.empty() && notice.chunk == 0) {
          fault = take_credits(notice.channel, static_cast<int32_t>(arrived.released - sending_[notice.channel].released));
        }
        break;
      }
      case VerbsNotice::kCredit:
        fault = take_credits(notice.channel, notice.ahead_of(sending_[notice.channel].released));
        break;
      case VerbsNotice::kHello:
        ++hellos_;
        break;
      case VerbsNotice::kDead:
        fault = take_report(notice.sequence, index_of(pair));
        break;
      default:
        fault = "sent a notice of kind " + std::to_string(static_cast<int>(notice.notice));
    }
  }
  if (!fault.empty()) fail(fault);
}

std::string VerbsEndpoint::take_credits(Channel channel, int32_t news) {
  SendLane& lane = sending_[channel];
  // Notices of several pairs overtake each other: an older count says nothing.
  if (news <= 0) return "";
  if (static_cast<uint32_t>(news) > lane.sent - lane.released) {
    return "released " + std::to_string(lane.released + static_cast<uint32_t>(news)) + " messages of " +
           std::to_string(lane.sent);
  }
  lane.released += static_cast<uint32_t>(news);
  return "";
}

Result<std::optional<ReceivedMessage>> VerbsEndpoint::front(Channel channel) {
  if (!error_.ok()) [[unlikely]]
    return error_;
  GIMBAL_DCHECK(channel < channels());
  const VerbsArrivals& arrivals = receiving_[channel].arrivals;
  if (!arrivals.front_is_complete()) {
    if (!lost_.ok()) [[unlikely]]
      return lost_;
    return std::optional<ReceivedMessage>();
  }
  const size_t slot = options_.slots.slot(channel, arrivals.released());
  const SlotHeader& first = header(receive_slots_, slot);
  return std::optional(
      ReceivedMessage{.bytes = receive_slots_.subspan(options_.slots.payload_at(slot), first.bytes), .tag = first.tag});
}

void VerbsEndpoint::release(Channel channel) {
  GIMBAL_DCHECK(receiving_[channel].arrivals.front_is_complete());
  receiving_[channel].arrivals.release();
}

void VerbsEndpoint::make_credit_due(ReceiveLane& lane) {
  lane.idle_calls = 0;
  lane.credit_due = true;
  ++credits_due_;
}

// One credit waits for a message that goes back anyway, as on TCP: plans leave one message of each window unused
// (runtime/plan.h). But ranks that wait for slots do not release either, so two must not, and one not for ever.
void VerbsEndpoint::offer_credits() {
  for (ReceiveLane& lane : receiving_) {
    const uint32_t unreported = lane.arrivals.released() - lane.reported;
    if (unreported == 0 || lane.credit_due) {
      lane.idle_calls = 0;
      continue;
    }
    // Half a window goes at once; two, or one of a side that waits for room, at the second call.
    const uint32_t patience = unreported * 2 >= window() ? 0 : unreported >= 2 || starved_ ? 1 : kIdleCalls;
    if (++lane.idle_calls > patience) make_credit_due(lane);
  }
  starved_ = false;
}

void VerbsEndpoint::before_sleep() {
  if (!error_.ok() || !lost_.ok()) return;
  for (ReceiveLane& lane : receiving_) {
    if (lane.arrivals.released() != lane.reported && !lane.credit_due) make_credit_due(lane);
  }
  feed();
}

Status VerbsEndpoint::progress() {
  if (!error_.ok()) [[unlikely]]
    return error_;
  RETURN_IF_ERROR(poller_.look_in_turn(looked_));
  if (!error_.ok()) [[unlikely]]
    return error_;
  // What arrived before the last pair was lost may be all that this rank needs; what it has not sent never is.
  if (!lost_.ok()) [[unlikely]]
    return owes_data() ? lost_ : Status();
  offer_credits();
  if (waiting_count_ > 0 || credits_due_ > 0 || pairs_up_ < pairs_.size()) feed();
  return {};
}

void VerbsEndpoint::fail(const std::string& what) {
  error_ = Status(Code::kInternal, options_.peer_name + " broke the verbs link: it " + what);
}

}  // namespace gimbal
