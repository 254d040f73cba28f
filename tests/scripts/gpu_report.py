# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu/report.py over synthetic results: each bar met, not met and open."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "gpu"))
import report


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.results = pathlib.Path(folder.name)
        (self.results / "machine.json").write_text('{"card": "NVIDIA X", "date": "2026-01-02", "CUDA": "13"}')

    def rows(self, name, *rows):
        (self.results / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))

    def curve(self, name, losses):
        (self.results / "curves").mkdir(exist_ok=True)
        (self.results / "curves" / f"{name}.csv").write_text(
            "step,loss,top1\n" + "".join(f"{k},{x},0\n" for k, x in enumerate(losses)))

    def met(self, part):
        """Whether the only bar with this part in its name is met."""
        with contextlib.redirect_stdout(io.StringIO()):
            report.main(self.results, self.results / "out")
        written = json.loads((self.results / "out.json").read_text())
        self.assertIn("NVIDIA X, 2026-01-02", (self.results / "out.md").read_text())
        met = [bar["met"] for bar in written["bars"] if part in bar["bar"]]
        self.assertEqual(len(met), 1, written["bars"])
        return met[0]

    def test_bars_without_measurements_are_open(self):
        for part in ("layers alone", "a step", "loss curve", "bandwidth", "beside cuDNN", "fused graphs", "ResNet-50", "CIFAR-10"):
            self.assertIsNone(self.met(part))

    def test_one_layer_above_its_bar_fails_it(self):
        row = {"layer": "a", "engine": "cudnn", "precision": "fp16", "y": 1e-4, "dx": 1e-4, "bar": 1e-3, "within": True}
        self.rows("layers", row)
        self.assertTrue(self.met("1 layers alone, cudnn, fp16"))
        self.rows("layers", row, {**row, "layer": "b", "dx": 0.1, "within": False})
        self.assertFalse(self.met("2 layers alone, cudnn, fp16"))
        self.rows("torch_layers", {**row, "dx": 0.2}, {**row, "precision": "fp32", "dx": 0.3})
        self.assertFalse(self.met("2 layers alone, cudnn, fp16"))
        self.assertIn("worst relative error 0.1, bar 0.001, PyTorch's 0.2 on 1 of them", (self.results / "out.md").read_text())

    def test_a_step_is_judged_by_its_loss_and_compared_with_pytorch(self):
        row = {"engine": "cudnn", "precision": "fp16", "y": 2e-4, "gradient": 0.5, "bar": 1e-3, "within": True}
        steps = [{"layer": f"a step of ResNet-{depth}", **row} for depth in (20, 50)]
        steps[1].update(y=0.2, within=False)
        self.rows("layers", *steps)
        self.rows("torch_layers", {"layer": "a step of ResNet-20", "precision": "fp16", "y": 3e-4, "gradient": 0.6},
                  {"layer": "a step of ResNet-20", "precision": "bf16", "y": 4e-4, "gradient": 0.7})
        self.assertTrue(self.met("a step of ResNet-20, fp16"))
        self.assertFalse(self.met("a step of ResNet-50, fp16"))
        text = (self.results / "out.md").read_text()
        self.assertIn("loss 0.0002, bar 0.001, of the gradient 0.5; PyTorch's 0.0003 and 0.6 | yes", text)
        self.assertIn("loss 0.2, bar 0.001, of the gradient 0.5 | **no**", text)
        self.assertIsNone(self.met("ResNet-50, fp16, training step"))
        self.rows("layers", {**steps[0], "logits": 0.02, "logits_bar": 0.01, "within": False})
        self.assertFalse(self.met("a step of ResNet-20, fp16"))
        self.assertIn("loss 0.0002, bar 0.001, of the logits 0.02, bar 0.01, of the gradient",
                      (self.results / "out.md").read_text())

    def test_engines_are_judged_separately(self):
        row = {"layer": "a", "engine": "cudnn", "precision": "fp16", "y": 1e-4, "dx": 1e-4, "bar": 1e-3, "within": True}
        mine = {**row, "engine": "tensor_core", "y": 0.25, "within": False}
        whole = {**row, "layer": "b", "engine": "tensor_core", "precision": "int8", "y": 0, "bar": 0}
        self.rows("layers", row, {**row, "layer": "b"}, mine, whole)
        self.rows("torch_layers", row, {**row, "layer": "b", "dx": 0.5})
        self.assertTrue(self.met("2 layers alone, cudnn, fp16, beside fp64"))
        self.assertFalse(self.met("1 layers alone, tensor_core, fp16, beside fp64"))
        self.assertTrue(self.met("1 layers alone, tensor_core, int8, beside integers"))
        text = (self.results / "out.md").read_text()
        self.assertIn("error 0.25, bar 0.001, PyTorch's 0.0001 on 1 of them; above it: a", text)
        self.assertIn("PyTorch's 0.5 on 2 of them", text)

    def test_a_curve_may_be_as_far_as_another_seed_and_no_further(self):
        self.curve("cpu-1", [3, 2, 1])
        self.curve("cpu-2", [4, 2, 2])
        self.curve("gpu-fp16", [3, 3, 0])
        self.curve("gpu-bf16", [5, 2, 2])
        self.assertTrue(self.met("3 steps, fp16"))
        self.assertFalse(self.met("3 steps, bf16"))
        self.curve("gpu-fp16", [3, 2])
        self.assertIsNone(self.met("3 steps, fp16"))

    def test_a_bandwidth_share_is_judged_by_its_program(self):
        row = {"what": "sgd", "milliseconds": 1, "gigabytes_per_second": 1, "share": 0.9, "bar": 0.85, "within": True}
        self.rows("bandwidth", {**row, "what": "copy"}, row, {**row, "what": "lamb", "within": False})
        self.assertTrue(self.met("bandwidth: sgd"))
        self.assertFalse(self.met("bandwidth: lamb"))

    def test_a_primitive_with_another_result_fails_and_times_are_listed(self):
        row = {"primitive": "histogram", "size": 10000, "ours": 4, "theirs": 6, "ours_median": 5, "theirs_median": 7,
               "ratio": 1.5, "within": True}
        self.rows("primitives", row, {**row, "primitive": "range", "within": False})
        self.assertTrue(self.met("Thrust's: histogram, 10000 numbers"))
        self.assertFalse(self.met("Thrust's: range"))
        self.assertIn("| histogram | 10000 | 4.00 | 6.00 | 1.50 |", (self.results / "out.md").read_text())

    def test_the_median_of_ratios_is_judged_by_its_program_and_each_is_listed(self):
        row = {"layer": "convolution", "batch": 256, "direction": "dgrad", "tensor_core": 4, "cudnn": 3, "ratio": 0.75}
        median = {"median of": 71, "ratio": 0.55, "bar": 0.5, "within": True}
        self.rows("tensor_cores", row, median)
        self.assertTrue(self.met("tensor_core beside cuDNN, median of 71"))
        text = (self.results / "out.md").read_text()
        self.assertIn("0.55 of its speed, bar 0.5", text)
        self.assertIn("| convolution | 256 | dgrad | 4.000 | 3.000 | 0.75 |", text)
        self.rows("tensor_cores", row, {**median, "ratio": 0.4, "within": False})
        self.assertFalse(self.met("tensor_core beside cuDNN"))
        self.rows("tensor_cores", row)
        self.assertIsNone(self.met("tensor_core beside cuDNN"))

    def test_the_classifiers_products_are_listed_by_cuda_cores_and_both_engines(self):
        self.rows("tensor_cores", {"classifier": "2048 -> 1000", "batch": 256, "direction": "wgrad", "cuda_cores": 0.13,
                                   "tensor_core": 0.02, "cudnn": 0.015})
        self.met("tensor_core beside cuDNN")  # which writes the report
        self.assertIn("| 2048 -> 1000 | 256 | wgrad | 0.1300 | 0.0200 | 0.0150 |", (self.results / "out.md").read_text())

    def test_the_best_throughputs_at_the_same_batch_are_compared(self):
        def row(program, batch, rate):
            return {"program": program, "batch": batch, "images_per_second": rate}
        mine = row("cordee", 64, 900), row("cordee, replayed", 64, 1000), row("cordee", 512, 2000)
        self.rows("throughput", *mine, row("pytorch, eager", 64, 950), row("pytorch, compile", 64, 990))
        self.assertTrue(self.met("ResNet-50, fp16, training step, batch 64"))
        self.assertIn("| 1000 images/s (cordee, replayed), PyTorch's best 990 (pytorch, compile): 1.010 | yes |",
                      (self.results / "out.md").read_text())
        # A larger batch of ours alone decides nothing.
        self.rows("throughput", *mine, row("pytorch, eager", 64, 950), row("pytorch, compile", 64, 1001))
        self.assertFalse(self.met("ResNet-50, fp16, training step"))
        self.rows("throughput", *mine, row("pytorch, eager", 256, 1))
        self.assertIsNone(self.met("ResNet-50"))
        self.rows("throughput", *mine, row("pytorch, eager", 64, 950), row("pytorch, eager", 512, 2001))
        self.assertTrue(self.met("step, batch 64"))
        self.assertFalse(self.met("step, batch 512"))

    def accuracy(self, ours, theirs):
        def runs(program, values):
            return [{"program": program, "batch": 128, "seed": k, "accuracy": x} for k, x in enumerate(values)]
        self.rows("accuracy", *runs("cordee", ours), *runs("pytorch", theirs))
        return self.met("batch 128" if min(len(ours), len(theirs)) > 1 else "CIFAR-10"), (self.results / "out.md").read_text()

    def test_an_accuracy_is_met_if_a_narrow_interval_contains_zero_or_lies_above(self):
        ours = [90.0, 90.2, 90.4, 90.1, 90.3]
        for theirs in ([90.3, 90.5, 90.1, 90.2, 90.4], [88.0, 88.2, 88.4, 88.1, 88.3]):
            met, text = self.accuracy(ours, theirs)
            self.assertTrue(met)
            self.assertNotIn("open: ", text.split("CIFAR-10, ")[1].splitlines()[0])

    def test_an_accuracy_is_open_with_few_seeds_or_a_wide_or_lower_interval(self):
        ours = [90.0, 90.2, 90.4, 90.1, 90.3]
        for theirs, reason in ((ours[:4], "five seeds of each are required"), ([88.0, 92.0, 90.0, 91.0, 89.0], "wider than 0.5"),
                            ([91.0, 91.2, 91.4, 91.1, 91.3], "the accuracy is lower"), (ours[:1], "not measured")):
            met, text = self.accuracy(ours, theirs)
            self.assertIsNone(met, reason)
            self.assertIn(reason, text)

    def test_fused_graphs_stages_and_kernels_are_listed_and_have_no_bar(self):
        row = {"graph": "g", "layer": "64x56x56 -> 64", "batch": 256, "fused": 1, "plain": 2.5, "convolution": 1.5}
        self.rows("fused_graphs", row, {**row, "plain": 1.5}, {**row, "fused": None})
        self.rows("stages", {"stage": "forward", "milliseconds": 20})
        self.rows("profile", {"kernel": "merge", "launches": 7, "milliseconds": 1.25})
        self.assertIsNone(self.met("fused graphs beside plain ones"))
        text = (self.results / "out.md").read_text()
        self.assertIn("median 2.00 of 2: 1 unsupported | open", text)
        self.assertIn("| g | 64x56x56 -> 64 | 256 | none | 2.500 | 1.500 |", text)
        self.assertIn("| forward | 20.000 |", text)
        self.assertIn("| merge | 7 | 1.250 |", text)

    def test_networks_on_integers_have_the_cpus_logits(self):
        row = {"net": "ResNet-20", "batch": 1, "images_per_second": 2000.4, "replayed": 9000, "within": True}
        self.rows("integers", row, {**row, "net": "ResNet-50", "within": False})
        self.assertTrue(self.met("logits on integers beside the CPU's: ResNet-20, batch 1"))
        self.assertFalse(self.met("logits on integers beside the CPU's: ResNet-50, batch 1"))
        self.assertIn("| ResNet-20 | 1 | 2000 | 9000 |", (self.results / "out.md").read_text())

    def test_checks_are_copied(self):
        self.rows("checks", {"check": "tests", "result": "failed", "within": False})
        self.assertFalse(self.met("tests"))


unittest.main()
