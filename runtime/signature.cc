#include "runtime/signature.h"

#include <cstdio>

namespace gimbal {
namespace {

constexpr uint32_t kWeighted = 1U << 24;
constexpr uint32_t kNormalized = 1U << 25;
constexpr uint32_t kOnDevice = 1U << 26;
// Of a piece, modulo 32: ranks whose pieces come in different orders are not in the same operation.
constexpr uint32_t kPieceShift = 27;
constexpr uint32_t kPieces = 32;

bool has_op(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduce || collective == Collective::kReduceScatter;
}

uint64_t mix(uint64_t value) {  // the finalizer of SplitMix64
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

}  // namespace

Signature make_signature(const Call& call, uint32_t sequence) {
  Signature signature;
  signature.sequence = sequence;
  signature.count = call.count;
  signature.kind = static_cast<uint32_t>(call.collective) | static_cast<uint32_t>(call.dtype) << 8 |
                   static_cast<uint32_t>(call.op) << 16 | (call.weighted ? kWeighted : 0) | (call.normalize ? kNormalized : 0);
  signature.root = call.root;
  if (call.on_device) {
    signature.kind |= kOnDevice | call.piece % kPieces << kPieceShift;
    signature.count = call.whole_count;
  }
  // An all-reduce has no root; a fused one tells its parts by a value that is no rank.
  if (call.parts_hash != 0) signature.root = -2 - static_cast<int32_t>(call.parts_hash & 0x3fffffff);
  // Block sizes of all_gather_v are equal on all ranks but for the caller's own share of them; those of all_to_all_v differ.
  if (call.collective == Collective::kAllGatherV || call.collective == Collective::kAllToAllV) signature.count = 0;
  return signature;
}

uint32_t hash_signature(const Signature& signature) {
  const uint64_t kind_and_root = static_cast<uint64_t>(signature.kind) << 32 | static_cast<uint32_t>(signature.root);
  return static_cast<uint32_t>(mix(mix(signature.count ^ 0x9e3779b97f4a7c15ULL) ^ mix(kind_and_root) ^ signature.sequence) >>
                               32);
}

SignatureNames name_parts(const Signature& signature) {
  const auto collective = static_cast<Collective>(signature.kind & 0xff);
  const uint32_t op = (signature.kind >> 16) & 0xff;
  SignatureNames names;
  names.collective = static_cast<uint32_t>(collective) < kCollectiveCount ? collective_name(collective) : "unknown operation";
  names.dtype = dtype_name(static_cast<DType>((signature.kind >> 8) & 0xff));
  if (has_op(collective)) names.op = op < kReduceOpCount ? reduce_op_name(static_cast<ReduceOp>(op)) : "unknown";
  return names;
}

std::string describe(const Signature& signature) {
  const auto collective = static_cast<Collective>(signature.kind & 0xff);
  const SignatureNames names = name_parts(signature);
  std::string text = names.collective;
  if (signature.sequence != 0) text += " #" + std::to_string(signature.sequence);
  if (collective == Collective::kBarrier) return text;
  text += " (count " + std::to_string(signature.count) + ", ";
  text += names.dtype;
  if (!names.op.empty()) text += ", " + names.op;
  if ((signature.kind & kWeighted) != 0) text += (signature.kind & kNormalized) != 0 ? ", weighted mean" : ", weighted sum";
  if ((signature.kind & kOnDevice) != 0) text += ", device memory";
  if (const uint32_t piece = signature.kind >> kPieceShift; piece != 0) text += ", piece " + std::to_string(piece);
  if (signature.root < -1) {
    // Two groups of one total differ in their parts only.
    char parts[16];
    std::snprintf(parts, sizeof(parts), "%08x", static_cast<uint32_t>(-2 - signature.root));
    text.append(", fused from a group with parts ").append(parts);
  }
  if (signature.root >= 0) text += (is_message(collective) ? ", peer " : ", root ") + std::to_string(signature.root);
  return text + ")";
}

}  // namespace gimbal
