#include "commands.h"
#include "config/load.h"
#include "ranks.h"
#include "train/trainer.h"

namespace fp {

void add_train_command(CLI::App& app, CommandResult& result) {
  struct Arguments {
    std::string file, resume = "auto";
    std::vector<std::string> sets;
    bool allow_data_change = false;
  };
  const auto a = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("train", "Train the model a run spec describes, or go on where it stopped");
  command->add_option("run", a->file, "run spec (YAML)")->required();
  command->add_option("--set", a->sets, "section.key=value, over the file; repeatable")
      ->take_all()
      ->allow_extra_args(false);
  command
      ->add_option("--resume", a->resume,
                   "auto: the newest good checkpoint, if any; none: start afresh; or the path of a checkpoint")
      ->capture_default_str();
  command->add_flag("--allow-data-change", a->allow_data_change,
                    "resume even if the data, its order or the seed have changed");
  command->callback([a, &result] {
    Ranks ranks;
    TrainRequest request{load_run_spec(a->file, a->sets), a->resume, a->allow_data_change, FPTRAIN_VERSION};
    validate_for_training(request.spec);
    ranks.start(request.spec);
    result.code = ranks.run([&] {
      Ops& ops = ranks.open_device(request.spec);
      const auto counting = make_counting_ops(&ops);
      return run_training(request, ops, *counting, ranks.world(), ranks.mesh());
    });
  });
}

}  // namespace fp
