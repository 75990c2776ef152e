#include "data/tokenizer/sentencepiece.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/utf8.h"
#include "data/tokenizer/join_table.h"
#include "data/tokenizer/tokenizer_json_steps.h"
#include "data/tokenizer/wire_format.h"

namespace fp {
namespace {

// Field numbers and values are those of sentencepiece_model.proto.
enum PieceType : uint64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

struct Piece {
  std::string text;
  float score = 0;
  uint64_t type = kNormal;
};

struct Model {
  std::vector<Piece> pieces;
  uint64_t model_type = 1;
  bool byte_fallback = false, whitespace_as_suffix = false;
  std::string unknown_surface = " \u2047 ";
  uint64_t bos_id = 1, eos_id = 2;
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
  bool character_map = false;
};

Piece read_piece(WireReader reader) {
  Piece piece;
  while (reader.next()) {
    if (reader.field() == 1) piece.text = reader.bytes();
    if (reader.field() == 2) piece.score = reader.number();
    if (reader.field() == 3) piece.type = reader.integer();
  }
  if (piece.text.empty() || utf8_valid_prefix(piece.text) < piece.text.size())
    reader.fail("a piece that is empty or not UTF-8");
  if (piece.text.size() > kMaxTokenBytes)
    reader.fail(fmt::format("a piece of {} bytes; legal: up to {}", piece.text.size(), kMaxTokenBytes));
  if (piece.type < kNormal || piece.type > kByte)
    reader.fail(fmt::format("piece \"{}\" has type {}; legal: 1 to 6", piece.text, piece.type));
  if (!std::isfinite(piece.score)) reader.fail(fmt::format("piece \"{}\" has no finite score", piece.text));
  return piece;
}

void read_trainer(WireReader reader, Model& model) {
  while (reader.next()) {
    if (reader.field() == 3) model.model_type = reader.integer();
    if (reader.field() == 24) model.whitespace_as_suffix = reader.integer() != 0;
    if (reader.field() == 35) model.byte_fallback = reader.integer() != 0;
    if (reader.field() == 41) model.bos_id = reader.integer();
    if (reader.field() == 42) model.eos_id = reader.integer();
    if (reader.field() == 44) model.unknown_surface = reader.bytes();
  }
}

void read_normalizer_spec(WireReader reader, Model& model) {
  while (reader.next()) {
    if (reader.field() == 2 && !reader.bytes().empty()) model.character_map = true;
    if (reader.field() == 3) model.add_dummy_prefix = reader.integer() != 0;
    if (reader.field() == 4) model.remove_extra_whitespaces = reader.integer() != 0;
    if (reader.field() == 5) model.escape_whitespaces = reader.integer() != 0;
  }
}

Model read_model(std::string_view content, const std::string& where) {
  Model model;
  WireReader reader(content, where);
  bool denormalizer = false;
  while (reader.next()) {
    if (reader.field() == 1) model.pieces.push_back(read_piece(reader.message()));
    if (reader.field() == 2) read_trainer(reader.message(), model);
    if (reader.field() == 3) read_normalizer_spec(reader.message(), model);
    if (reader.field() == 5) {
      Model decoded;
      read_normalizer_spec(reader.message(), decoded);
      denormalizer = decoded.character_map;
    }
  }
  const auto need = [&](bool ok, const char* field, const char* legal) {
    if (!ok) throw DataError(fmt::format("{}: {}: not supported; legal: {}", where, field, legal));
  };
  need(model.model_type == 2, "trainer_spec.model_type", "2 (BPE), of 1 unigram, 2 BPE, 3 word, 4 char");
  need(!model.character_map, "normalizer_spec.precompiled_charsmap",
       "none, as normalization_rule_name=identity writes (Llama 2, phi-3)");
  need(!denormalizer, "denormalizer_spec.precompiled_charsmap", "none");
  need(!model.whitespace_as_suffix, "trainer_spec.treat_whitespace_as_suffix", "false");
  if (model.pieces.empty()) throw DataError(fmt::format("{}: a SentencePiece model without pieces", where));
  return model;
}

class Builder {
 public:
  Builder(const Model& model, const std::string& where) : model_(model), where_(where) {}

  TokenizerDefinition build() {
    d_.kind = "SentencePiece BPE";
    d_.rules.symbols = BpeRules::Symbols::characters;
    d_.rules.fuse_unknown = true;
    d_.rules.byte_ids.fill(-1);
    for (size_t id = 0; id < model_.pieces.size(); ++id) add_piece(model_.pieces[id], static_cast<int32_t>(id));
    if (!d_.rules.unknown) throw DataError(fmt::format("{}: no piece of type unknown (2)", where_));
    const auto& bytes = d_.rules.byte_ids;
    if (model_.byte_fallback && std::count(bytes.begin(), bytes.end(), -1) > 0)
      throw DataError(fmt::format("{}: trainer_spec.byte_fallback is true, but a byte has no piece", where_));
    rank_by_score();
    add_steps();
    return std::move(d_);
  }
  const StringMap<int32_t>& ids() const { return ids_; }

 private:
  void add_piece(const Piece& piece, int32_t id) {
    if (!ids_.emplace(piece.text, id).second) fail(piece, "occurs twice");
    std::string text = piece.text;
    for (size_t at = 0; (at = text.find(kSpaceMark, at)) != std::string::npos; ++at)
      text.replace(at, kSpaceMark.size(), " ");
    switch (piece.type) {
      case kUnused:
      case kNormal:
        add_joinable(piece, id);
        break;
      case kUserDefined:
        d_.rules.frozen.emplace_back(piece.text, id);
        break;
      case kByte: {
        const int byte = byte_of_fallback_token(piece.text);
        if (byte < 0 || !model_.byte_fallback)
          fail(piece, "is a byte piece; legal: <0x00> to <0xFF> with byte_fallback");
        d_.rules.byte_ids[static_cast<size_t>(byte)] = id;
        text = std::string(1, static_cast<char>(static_cast<uint8_t>(byte)));
        break;
      }
      default:
        add_special(piece, id);
        if (piece.type == kUnknown) text = model_.unknown_surface;
    }
    d_.tokens.emplace_back(std::move(text));
  }
  void add_joinable(const Piece& piece, int32_t id) {
    const bool character = utf8_character(piece.text) == piece.text.size();
    // Longer unused pieces are split again after merging; a single character cannot be split, so it is unknown.
    if (character && piece.type == kUnused) return;
    if (piece.type == kUnused) d_.rules.unused.push_back(id);
    if (character) d_.rules.characters.emplace_back(utf8_decode(piece.text), id);
    ranked_.push_back({piece.text, id, 0});
  }
  void add_special(const Piece& piece, int32_t id) {
    if (piece.type == kUnknown) {
      if (d_.rules.unknown) fail(piece, "is a second unknown piece");
      d_.rules.unknown = id;
    }
    AddedToken token;
    token.id = id;
    token.content = piece.text;
    token.special = piece.type == kControl;  // the unknown piece stays visible in decoded text
    d_.added.push_back(token);
    if (piece.type == kControl && static_cast<uint64_t>(id) == model_.bos_id) d_.bos = id;
  }
  [[noreturn]] void fail(const Piece& piece, const char* what) const {
    throw DataError(fmt::format("{}: piece \"{}\" {}", where_, piece.text, what));
  }

  // Equal scores give equal ranks, so that the leftmost pair is merged first.
  void rank_by_score() {
    const auto score = [&](const RankedToken& token) { return model_.pieces[static_cast<size_t>(token.id)].score; };
    std::stable_sort(ranked_.begin(), ranked_.end(), [&](const auto& a, const auto& b) { return score(a) > score(b); });
    for (size_t i = 1; i < ranked_.size(); ++i)
      ranked_[i].rank = ranked_[i - 1].rank + (score(ranked_[i]) < score(ranked_[i - 1]) ? 1 : 0);
    d_.rules.merges = join_table(ranked_, BpeRules::Symbols::characters);
  }

  void add_steps() {
    const std::string space = model_.escape_whitespaces ? std::string(kSpaceMark) : " ";
    if (model_.remove_extra_whitespaces) d_.normalizer.emplace_back().kind = TextStep::Kind::collapse_spaces;
    if (model_.add_dummy_prefix) d_.normalizer.push_back(prepend_step(space, TextStep::Prepend::always));
    if (model_.escape_whitespaces) d_.normalizer.push_back(replace_step(" ", space));
    if (model_.add_dummy_prefix) d_.dummy_prefix = " ";
  }

  const Model& model_;
  const std::string& where_;
  TokenizerDefinition d_;
  StringMap<int32_t> ids_;
  std::vector<RankedToken> ranked_;
};

}  // namespace

// A model begins with the first piece, which is a message of field 1.
bool looks_like_sentencepiece(std::string_view content) { return content.starts_with('\n'); }

TokenizerDefinition parse_sentencepiece(const TokenizerSource& source, const std::string& where) {
  const Model model = read_model(source.data, where);
  Builder builder(model, where);
  TokenizerDefinition d = builder.build();
  add_tokens_of(source, builder.ids(), where, d);
  // <|endoftext|> (phi-3) takes precedence over the control piece.
  const bool has_usual = std::any_of(d.added.begin(), d.added.end(),
                                     [](const AddedToken& token) { return token.content == "<|endoftext|>"; });
  for (const AddedToken& token : d.added)
    if (!has_usual && static_cast<uint64_t>(token.id) == model.eos_id && token.id != d.rules.unknown) d.eot = token.id;
  return d;
}

}  // namespace fp
