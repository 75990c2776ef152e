// Checks of a document that involve several keys.
#pragma once

#include "config/fields/decode.h"
#include "config/run_spec.h"
#include "config/yaml/problems.h"

namespace fp {

// Collects the problems that checks find; each check names the keys it reads. A problem is reported at the first of its
// keys that was written, else at its section, else at the file. A check is skipped if one of its keys is invalid or
// left to the planner.
class Checker {
 public:
  Checker(const Written& written, std::string file, Problems& problems)
      : written_(written), file_(std::move(file)), problems_(problems) {}

  // True if the document contains the key.
  bool written(const std::string& key) const { return written_.has(key); }
  // Adds `message` as a problem unless `ok`. `keys` must not be empty.
  void require(bool ok, const std::vector<std::string>& keys, const std::string& message);

 private:
  // True if the key, or a section it is in, is invalid, or the key is left to the planner.
  bool unusable(std::string key) const;
  Place place_of(const std::vector<std::string>& keys) const;

  const Written& written_;
  const std::string file_;
  Problems& problems_;
};

// Checks the section communication.
void check_communication(const RunSpec& spec, Checker& check);
// Checks a spec as written for values that resolve() would overwrite.
void check_before_resolve(const RunSpec& spec, Checker& check);
// Checks that only one of train.steps, train.tokens and train.epochs is given. Call before resolve().
void check_run_length(const RunSpec& spec, Checker& check);
// Check a resolved spec.
void check_model(const ModelSection& model, Checker& check);
void check_run(const RunSpec& spec, Checker& check);
// Checks that the datasets exist.
void check_data_paths(const RunSpec& spec, Checker& check);

}  // namespace fp
