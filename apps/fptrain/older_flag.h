// The flag --allow-older of commands that read the newest checkpoint of a run.
#pragma once

#include "checkpoint/folder.h"
#include "command_line.h"

namespace fp {

class OlderFlag {
 public:
  // Adds the flag to a command. The object must stay at its address until the command line has been read.
  void add_to(cli::App& command) {
    command.add_flag("--allow-older", given_,
                     "if the newest checkpoint of a run is damaged, use the newest one that is not; without this, it "
                     "is an error");
  }
  Older value() const { return given_ ? Older::allowed : Older::refused_without_flag; }

 private:
  bool given_ = false;
};

}  // namespace fp
