#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/filesystem.h"
#include "report/report_html.h"
#include "report/run_plots.h"
#include "strict_markup.h"
#include "support/temporary_folder.h"

using namespace fp;
using namespace fp::test;
using Catch::Contains;

namespace {

StepMetrics step_at(int64_t step, int64_t total) {
  StepMetrics m;
  m.step = step;
  m.loss = 2 + 8 * std::exp(-20.0 * static_cast<double>(step) / static_cast<double>(total)) +
           0.1 * std::sin(static_cast<double>(step) * 12.9898);
  m.lr = 1e-3;
  m.grad_norm = 1 + std::abs(std::sin(static_cast<double>(step)));
  m.tokens = step * 4096;
  m.tokens_per_s = 9000 + 100 * std::cos(static_cast<double>(step));
  m.step_ms = 455;
  m.mfu = m.tokens_per_s * 4e-5;
  m.peak_bytes = int64_t{1} << 30;
  m.consumed_samples = step * 8;
  m.elapsed_s = 0.455 * static_cast<double>(step);
  if (step % std::max<int64_t>(1, total / 10) == 0) {
    m.val_loss = m.loss + 0.1;
    m.val_perplexity = std::exp(*m.val_loss);
    m.val_bits_per_byte = *m.val_loss * 0.9;
  }
  return m;
}

History history_of(int64_t steps) {
  History h;
  for (int64_t step = 1; step <= steps; ++step) h.add(step_at(step, steps));
  return h;
}

RunFacts some_facts() {
  RunFacts f;
  f.name = "tiny";
  f.status = "finished";
  f.model = "llama, 2 layers";
  f.parameters = 1234567;
  f.total_steps = 200;
  f.predicted_peak_bytes = int64_t{1200} << 20;
  f.sample_prompt = "In the beginning";
  f.sample_text = " was the word";
  f.machine.host = "node";
  return f;
}

std::string text_of(const std::vector<Element>& elements, const std::string& name, const std::string& css_class) {
  for (const Element& e : elements) {
    const auto it = e.attributes.find("class");
    if (e.name == name && (css_class.empty() || (it != e.attributes.end() && it->second == css_class))) return e.text;
  }
  return "(none)";
}

nlohmann::json data_of(const std::vector<Element>& elements) {
  for (const Element& e : elements)
    if (e.attributes.contains("id") && e.attributes.at("id") == "data") return nlohmann::json::parse(e.text);
  return {};
}

}  // namespace

TEST_CASE("the page is well-formed, self-contained and complete") {
  History h = history_of(200);
  StepMetrics bad = step_at(201, 200);
  bad.loss = StepMetrics::kUnknown;
  bad.skipped = true;
  bad.resumed = true;
  h.add(bad);
  RunFacts facts = some_facts();
  facts.events.push_back({150, 1700000000, "saved & stopped"});
  const std::string page = report_page(facts, h, {"run:\n  name: tiny\n", "the plan"}, 1700000000);
  const auto elements = parse_strictly(page);
  CHECK(page.find("http") == std::string::npos);
  for (const Element& e : elements)
    for (const char* fetching : {"src", "href"}) CHECK_FALSE(e.attributes.contains(fetching));
  CHECK(page.find("url(#") != std::string::npos);
  CHECK(page.find("url(\"") == std::string::npos);
  CHECK(page.find("@import") == std::string::npos);

  CHECK(text_of(elements, "h1", "") == "tiny");
  const std::string tiles = text_of(elements, "section", "tiles");
  CHECK_THAT(tiles, Contains("Parameters1.23M0.667 tokens for each") && Contains("Tokens823k"));
  CHECK_THAT(tiles, Contains(fmt::format("Validation, bits/byte{:.4f}best {:.4f} at step {}",
                                         *h.evaluations().back().val_bits_per_byte,
                                         *h.best_evaluation()->val_bits_per_byte, h.best_evaluation()->step)));
  CHECK_THAT(page, Contains("Validation, bits/byte") && Contains("step 201 of 200") && Contains("2023-11-14 22:13:20"));
  CHECK_THAT(page, Contains("1 update with non-finite values, at step 201") && Contains("resumed at"));
  CHECK_THAT(page, Contains("saved &amp; stopped") && Contains("the plan") && Contains("  name: tiny"));
  CHECK(text_of(elements, "pre", "sample") == "In the beginning was the word");
  const auto plots =
      std::count_if(elements.begin(), elements.end(), [](const Element& e) { return e.name == "figure"; });
  CHECK(plots == 6);

  const nlohmann::json data = data_of(elements);
  REQUIRE(data["curves"].contains("loss"));
  CHECK(data["first"].size() == 201);
  CHECK(data["curves"]["loss"]["y"][200].is_null());
  for (const auto& curve : data["curves"]) CHECK(curve["y"].size() == data["x"][curve["x"].get<size_t>()].size());
  for (const Element& e : elements)
    if (e.attributes.contains("data-curve")) CHECK(data["curves"].contains(e.attributes.at("data-curve")));
}

TEST_CASE("the page of preferences shows accuracy and margin, and no loss of tokens") {
  History h;
  for (int64_t step = 1; step <= 20; ++step) {
    StepMetrics m = step_at(step, 20);
    m.accuracy = 0.5 + 0.02 * static_cast<double>(step);
    m.margin = 0.1 * static_cast<double>(step);
    m.val_perplexity.reset();
    m.val_bits_per_byte.reset();
    if (m.val_loss) m.val_accuracy = 0.75, m.val_margin = 1.5;
    h.add(m);
  }
  const std::string page = report_page(some_facts(), h, {}, 0);
  const auto elements = parse_strictly(page);
  CHECK_THAT(page, Contains("Loss, mean of pairs") && Contains("Accuracy, pairs with") && Contains("Reward margin"));
  CHECK_THAT(page, !Contains("nats per token") && !Contains("perplexity") && !Contains("bits per byte"));
  CHECK_THAT(text_of(elements, "section", "tiles"),
             Contains("75.0% of held-out pairs") && Contains("1.5 for held-out pairs") && Contains("Validation loss"));
  const nlohmann::json data = data_of(elements);
  CHECK(data["curves"]["val_accuracy"]["y"].size() == 10);
  CHECK_THAT(loss_picture(some_facts(), h), Contains("tiny: loss, mean of pairs"));
}

TEST_CASE("the page of a mixture has a validation curve for each dataset") {
  History h;
  for (int64_t step = 1; step <= 20; ++step) {
    StepMetrics m = step_at(step, 20);
    if (m.val_loss) m.val_bits_per_byte_of = {{"books", 1.25}, {"a <b>", 1.5}};
    h.add(m);
  }
  RunFacts facts = some_facts();
  facts.objective = "sft";
  facts.initial_weights = "from models/llama";
  facts.length = "20 steps x 4 x 16 = 1.28k tokens";
  const std::string page = report_page(facts, h, {}, 0);
  const auto elements = parse_strictly(page);
  CHECK_THAT(page,
             Contains("all held-out text") && Contains("a &lt;b&gt;") && Contains("Loss, nats per token of answers"));
  CHECK_THAT(page, Contains("from models/llama") && Contains("1.28k tokens"));
  const nlohmann::json data = data_of(elements);
  CHECK(data["curves"]["bpb_1"]["y"][0] == 1.25);
}

TEST_CASE("the page draws the loss by position of the first and the last evaluation, apart from the steps") {
  History h;
  for (int64_t step = 1; step <= 20; ++step) {
    StepMetrics m = step_at(step, 20);
    if (m.val_loss)
      m.val_loss_at = {{"0-64", 3.0}, {"64-128", 2.0 + 1.0 / static_cast<double>(step)}, {"wrong", 1}, {"9-3", 1}};
    m.val_loss_error_at = {{"64-128", 0.5}};
    h.add(m);
  }
  const Plot plot = position_plot(h.evaluations());
  REQUIRE(plot.curves.size() == 2);
  CHECK(plot.curves[0].label == "step 2");
  CHECK(plot.curves[1].label == "step 20");
  CHECK(plot.curves[1].x == std::vector<double>{32, 96});
  CHECK(plot.curves[1].y[1] == Approx(2.05));
  CHECK(plot.curves[1].low[1] == Approx(1.05));
  CHECK(std::isnan(plot.curves[1].high[0]));
  const std::string page = report_page(some_facts(), h, {}, 0);
  parse_strictly(page);
  CHECK_THAT(page, Contains("Held-out loss by position, nats per token") && Contains("svg class=\"still\"") &&
                       !Contains("at_last"));
  CHECK_THAT(report_page(some_facts(), history_of(20), {}, 0), !Contains("by position"));
}

TEST_CASE("one value of MFU at the start shows neither a number nor an axis") {
  History h;
  for (int64_t step = 1; step <= 20; ++step) {
    StepMetrics m = step_at(step, 20);
    m.mfu = step == 1 ? 0.69 : StepMetrics::kUnknown;
    h.add(m);
  }
  CHECK_THAT(report_page(some_facts(), h, {}, 0), !Contains("MFU"));
  CHECK_THAT(report_page(some_facts(), history_of(20), {}, 0), Contains("% MFU"));
}

TEST_CASE("text from users and models is escaped everywhere on the page") {
  const std::string evil = "</pre><script>alert('x')</script>&amp;\"--><!-- \x01\xff";
  RunFacts facts = some_facts();
  facts.name = facts.model = facts.data = facts.compute = facts.version = facts.status = evil;
  facts.sample_prompt = facts.sample_text = evil;
  facts.machine.host = facts.machine.cpu.model = evil;
  facts.events.push_back({1, 1, evil});
  const std::string page = report_page(facts, history_of(20), {evil, evil}, 0);
  const auto elements = parse_strictly(page);
  CHECK(std::count_if(elements.begin(), elements.end(), [](const Element& e) { return e.name == "script"; }) == 2);
  CHECK(text_of(elements, "h1", "") == "</pre><script>alert('x')</script>&amp;\"--><!-- \xEF\xBF\xBD\xEF\xBF\xBD");
  CHECK_NOTHROW(parse_strictly(loss_picture(facts, history_of(20))));
}

TEST_CASE("pages of runs with no step, one step or only NaN are well-formed") {
  CHECK_NOTHROW(parse_strictly(report_page({}, {}, {}, 0)));
  CHECK_NOTHROW(parse_strictly(loss_picture({}, {})));
  for (const int64_t steps : {1, 2}) CHECK_NOTHROW(parse_strictly(report_page(some_facts(), history_of(steps), {}, 0)));
  History h;
  for (int64_t step = 1; step <= 3; ++step) {
    StepMetrics m;
    m.step = step;
    m.skipped = true;
    h.add(m);
  }
  const std::string page = report_page(some_facts(), h, {}, 0);
  CHECK_NOTHROW(data_of(parse_strictly(page)));
}

TEST_CASE("the page of a million steps is smaller than 2 MB") {
  History h = history_of(1000000);
  const std::string page = report_page(some_facts(), h, {}, 0);
  CHECK(page.size() < 2000000);
  CHECK(h.steps() == 1000000);
  CHECK_NOTHROW(parse_strictly(page));
}

TEST_CASE("the picture is one self-contained SVG file") {
  const std::string svg = loss_picture(some_facts(), history_of(300));
  const auto elements = parse_strictly(svg);
  CHECK(elements[0].attributes.at("xmlns") == "http://www.w3.org/2000/svg");
  CHECK_THAT(text_of(elements, "text", "title"), Contains("tiny"));
  CHECK_THAT(svg, Contains("bits per byte held out") && Contains("prefers-color-scheme:dark"));
}

TEST_CASE("the report of a run directory is written and regenerated from its files") {
  const TemporaryFolder dir;
  CHECK_THROWS_AS(write_report(dir.path), DataError);
  CHECK_THROWS_WITH(write_report(dir.path), Contains("metrics.jsonl"));
  {
    MetricsWriter writer(dir.path / "metrics.jsonl", 0);
    for (int64_t step = 1; step <= 50; ++step) writer.append(step_at(step, 50));
  }
  write_report(dir.path);  // no facts yet: named after the folder
  CHECK_THAT(read_file(dir.path / "report.html"), Contains("<h1>" + dir.path.filename().string() + "</h1>"));

  write_text(dir.path / "config.yaml", "run: {name: tiny}\n");
  RunFacts facts = some_facts();
  facts.events.push_back({7, 8.5, "nine"});
  write_report(dir.path, facts);
  const RunFacts back = load_run_facts(dir.path);
  CHECK(back.name == "tiny");
  CHECK(back.parameters == 1234567);
  CHECK(back.events.at(0).text == "nine");
  CHECK(back.events.at(0).time == 8.5);
  CHECK(back.machine.host == "node");
  std::filesystem::remove(dir.path / "report.html");
  write_report(dir.path);
  CHECK_THAT(read_file(dir.path / "report.html"), Contains("<h1>tiny</h1>") && Contains("run: {name: tiny}"));
  write_loss_picture(dir.path, dir.path / "run.svg");
  CHECK_NOTHROW(parse_strictly(read_file(dir.path / "run.svg")));
  for (const auto& entry : std::filesystem::directory_iterator(dir.path))
    CHECK(entry.path().string().find(".tmp") == std::string::npos);

  write_text(dir.path / "report.json", "{\"name\": 3}");
  CHECK_THROWS_WITH(write_report(dir.path), Contains("report.json"));
}
