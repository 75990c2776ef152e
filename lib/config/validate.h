// Checks that span several keys of a document.
#pragma once

#include "config/decode.h"
#include "config/problems.h"
#include "config/run_spec.h"

namespace fp {

// Collects problems of checks that name the keys they look at. A problem is placed at the first of its keys that was
// written down, else at its section, else at the file; a check is skipped when one of its keys could not be read or is
// left to the planner.
class Checker {
 public:
  Checker(const Written& written, std::string file, Problems& problems)
      : written_(written), file_(std::move(file)), problems_(problems) {}

  bool written(const std::string& key) const { return written_.has(key); }
  void require(bool ok, const std::vector<std::string>& keys, const std::string& message);

 private:
  // The key, or a section it is in, could not be read, or has no value yet.
  bool unusable(std::string key) const;
  Place place_of(const std::vector<std::string>& keys) const;

  const Written& written_;
  const std::string file_;
  Problems& problems_;
};

// Of a spec as written: what resolve() would overwrite.
void check_before_resolve(const RunSpec& spec, Checker& check);
// Of a resolved spec.
void check_model(const ModelSection& model, Checker& check);
void check_run(const RunSpec& spec, Checker& check);
// That the datasets exist.
void check_data_paths(const RunSpec& spec, Checker& check);

}  // namespace fp
