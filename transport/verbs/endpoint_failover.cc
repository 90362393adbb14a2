// What an endpoint does when queue pairs fail.
#include <algorithm>

#include "transport/verbs/endpoint.h"

namespace gimbal {

uint8_t VerbsEndpoint::index_of(const VerbsQueuePair& pair) const {
  const auto found = std::ranges::find_if(pairs_, [&](const Pair& one) { return one.queue.get() == &pair; });
  return static_cast<uint8_t>(found - pairs_.begin());
}

void VerbsEndpoint::failed(VerbsQueuePair& pair, const std::string& why) { lose(index_of(pair), why); }

void VerbsEndpoint::port_down(const VerbsRail& rail, const std::string& why) {
  const bool has_other_rail =
      std::ranges::any_of(pairs_, [&](const Pair& pair) { return pair.queue->is_up() && &pair.queue->rail() != &rail; });
  if (!has_other_rail) return;
  for (size_t i = 0; i < pairs_.size(); ++i) {
    if (pairs_[i].queue->is_up() && &pairs_[i].queue->rail() == &rail) lose(static_cast<uint8_t>(i), why);
  }
}

void VerbsEndpoint::lose(uint8_t index, const std::string& why) {
  Pair& pair = pairs_[index];
  pair.why = why;
  pair.undelivered = pair.queue->has_outstanding_data();
  pair.report_due = true;
  pair.queue->fail();
  --pairs_up_;
  // Whether a report that went over it has arrived will not be known.
  for (Pair& other : pairs_) {
    if (other.carrier != index) continue;
    other.carrier = kNoPair;
    other.report_due = true;
  }
  if (pairs_up_ > 0) return;
  lost_ = Status(Code::kRemote, options_.peer_name + " is lost: no queue pair to it is left, the last was " +
                                    options_.ways[pair.way].name + ": " + why);
}

bool VerbsEndpoint::reports_due() const {
  return std::ranges::any_of(pairs_, [](const Pair& pair) { return pair.report_due; });
}

bool VerbsEndpoint::owes_data() const {
  return waiting_count_ > 0 ||
         std::ranges::any_of(pairs_, [](const Pair& pair) { return pair.undelivered && !pair.peer_reported; });
}

std::span<uint64_t> VerbsEndpoint::report(std::span<std::byte> area, size_t dead, size_t carrier) const {
  const size_t at = (dead * pairs_.size() + carrier) * report_layout_.bytes();
  return {reinterpret_cast<uint64_t*>(area.data() + at), report_layout_.words()};
}

// Each report of a pair has memory of its own for every pair that may carry it: one that is read is never written again.
void VerbsEndpoint::send_reports() {
  for (size_t dead = 0; dead < pairs_.size(); ++dead) {
    // Only what has been taken from its completion queue is known; the rest of what arrived there is.
    if (!pairs_[dead].report_due || !pairs_[dead].queue->is_drained()) continue;
    const uint8_t carrier = first_with_room();
    if (carrier == kNoPair) return;
    const std::span<uint64_t> words = report(sent_reports_, dead, carrier);
    for (size_t channel = 0; channel < receiving_.size(); ++channel) {
      ReceiveLane& lane = receiving_[channel];
      words[report_layout_.released_at(static_cast<Channel>(channel))] = lane.arrivals.released();
      for (size_t place = 0; place < window(); ++place) {
        words[report_layout_.chunks_at(static_cast<Channel>(channel), place)] = lane.arrivals.chunks_at(place);
      }
      lane.reported = lane.arrivals.released();
    }
    pairs_[dead].report_due = false;
    pairs_[dead].carrier = carrier;
    const size_t at = static_cast<size_t>(reinterpret_cast<std::byte*>(words.data()) - sent_reports_.data());
    const VerbsImmediate notice = {.notice = VerbsNotice::kDead, .sequence = static_cast<uint32_t>(dead)};
    pairs_[carrier].queue->add({.from = sent_reports_.data() + at,
                                .bytes = words.size_bytes(),
                                .to = peer_reports_ + at,
                                .remote_key = peer_keys_[pairs_[carrier].way],
                                .immediate = notice.pack()});
  }
}

std::string VerbsEndpoint::take_report(size_t dead, uint8_t carrier) {
  if (dead >= pairs_.size() || dead == carrier) return "lost queue pair " + std::to_string(dead) + ", which it cannot have";
  Pair& pair = pairs_[dead];
  if (pair.queue->is_up()) lose(static_cast<uint8_t>(dead), "it failed on the peer's side");
  if (pair.peer_reported) return "";
  pair.peer_reported = true;
  const std::span<const uint64_t> words = report(received_reports_, dead, carrier);
  for (size_t channel = 0; channel < sending_.size(); ++channel) {
    const auto released = static_cast<uint32_t>(words[report_layout_.released_at(static_cast<Channel>(channel))]);
    std::string fault =
        take_credits(static_cast<Channel>(channel), static_cast<int32_t>(released - sending_[channel].released));
    if (!fault.empty()) return fault;
  }
  const size_t chunks = send_again(dead, words);
  if (!told_[pair.way]) {
    options_.log.warning(options_.peer_name + ": " + options_.ways[pair.way].name + " failed (" + pair.why + "); " +
                         std::to_string(chunks) + " chunks that it carried, and those to come, go over other queue pairs");
  }
  told_[pair.way] = true;
  return "";
}

size_t VerbsEndpoint::send_again(size_t dead, std::span<const uint64_t> report) {
  size_t count = 0;
  for (size_t channel = 0; channel < sending_.size(); ++channel) {
    const SendLane& lane = sending_[channel];
    for (uint32_t sequence = lane.released; sequence != lane.sent; ++sequence) {
      const size_t slot = options_.slots.slot(static_cast<Channel>(channel), sequence);
      // Of a message that had no room yet when the report was written, its place tells of an older one.
      const auto released = static_cast<uint32_t>(report[report_layout_.released_at(static_cast<Channel>(channel))]);
      const uint64_t there = sequence - released < window()
                                 ? report[report_layout_.chunks_at(static_cast<Channel>(channel), sequence % window())]
                                 : 0;
      const size_t chunks = options_.slots.chunks_of(header(send_slots_, slot).bytes);
      for (size_t chunk = 0; chunk < chunks; ++chunk) {
        if (carrier_of(slot, chunk) != dead || (there >> chunk & 1) != 0) continue;
        wait_for_pair({static_cast<Channel>(channel), static_cast<uint8_t>(chunk), sequence});
        ++count;
      }
    }
  }
  return count;
}

}  // namespace gimbal
