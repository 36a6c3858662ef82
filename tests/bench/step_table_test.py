#!/usr/bin/env python3
"""bench/step_table.py with a trace that is made up."""

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import step_table  # noqa: E402


def ours(file, kernel):
    space = f"_GLOBAL__N__0f4ca4f5_{len(file) + 3}_{file}_cu_8cf1327f_30548"
    return f"_ZN5norma7kernels{len(space)}{space}{len(kernel)}{kernel}Ev"


COLUMNS = "_ZN5norma7kernels21finish_columns_kernelIffEEvPKflPT0_"
# What one step does, and for how many microseconds.
STEP = (
    ("copy", 1),
    (ours("add_norm", "forward_kernel"), 20),
    ("nvjet_sm90_tst_128x256_64x4", 100),
    ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16", 30),
    (ours("loss_plain", "plain_kernel"), 40),
    ("_ZN5norma7kernels5wgmma11keys_kernelILi64EEEvNS1_4MapsENS1_4WalkE", 50),
    (ours("add_norm", "backward_kernel"), 25),
    (COLUMNS, 5),
    (ours("bias", "columns_kernel"), 7),
    (COLUMNS, 3),
    (ours("embedding", "backward_kernel"), 9),
    (ours("optimizer", "squares_kernel"), 4),
    (ours("optimizer_step", "step_kernel"), 60),
)
PAUSE = 2  # microseconds before every kernel


def made_up_trace(steps):
    lines, now = [], 1000
    for _ in range(steps):
        for name, took in STEP:
            now += PAUSE * 1000
            lines.append(f"{now}\t{now + took * 1000}\t4,1,1\t256\t{name}")
            now += took * 1000
    return "\n".join(lines) + "\n12\t13\t4"  # cut short


class StepTable(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.trace = pathlib.Path(folder.name) / "trace.tsv"
        self.trace.write_text(made_up_trace(4))
        self.card = pathlib.Path(folder.name) / "card.csv"

    def table(self):
        events = step_table.read(self.trace)
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            step_table.show(events, step_table.steps_of(events), 40)
        return text.getvalue()

    def test_a_step_lies_between_two_optimizers(self):
        events = step_table.read(self.trace)
        self.assertEqual(step_table.steps_of(events), [(len(STEP) * i, len(STEP) * (i + 1)) for i in (1, 2, 3)])

    def test_times_of_a_step(self):
        busy = sum(took for _, took in STEP)
        text = self.table()
        self.assertIn(f"the median of 3): {(busy + PAUSE * len(STEP)) / 1e3:.2f} ms, {len(STEP)} kernels and copies, "
                      f"busy {busy / 1e3:.2f} ms", text)

    def test_every_page_of_kernels_has_a_group(self):
        pages = pathlib.Path(__file__).parents[2].glob("norma/kernels/cuda/*.cu")
        self.assertEqual({page.stem for page in pages}, set(step_table.GROUP_OF_FILE))

    def test_groups(self):
        sums = {}
        for event in step_table.read(self.trace)[:len(STEP)]:
            sums[event.group] = sums.get(event.group, 0) + (event.end - event.start) // 1000
        self.assertEqual(sums, {"copies": 1, "norms and residual": 50, "products": 100, "attention": 80, "loss": 40,
                                "activations": 10, "other": 9, "optimizer": 64})

    def test_names_can_be_read(self):
        text = self.table()
        self.assertIn("add_norm: forward_kernel (4,1,1) 256", text)
        self.assertNotIn("_ZN", text)
        self.assertEqual(step_table.shortened("_ZN", "void norma::kernels::path_kernel<norma::Bf16, (norma::kernels::Rule)2, "
                                                     "norma::kernels::RowTeam<256, 0> >(norma::kernels::Walk)"),
                         "path_kernel<Bf16, 2, RowTeam<256, 0>>")

    def test_names_can_be_read_without_a_tool(self):
        self.addCleanup(setattr, step_table.shutil, "which", step_table.shutil.which)
        step_table.shutil.which = lambda _: None
        self.assertIn("add_norm: forward_kernel (4,1,1) 256", self.table())

    def test_the_card_is_judged_under_load(self):
        self.card.write_text("345, 90.1, 0\n1700, 600.0, 98\n1750, 640.5, 99\n1800, 700.0, 100\n[N/A], 1, 1\n")
        self.assertIn("1750 MHz and took 640 W (medians of 3", step_table.card_line(self.card))
        self.card.write_text("")
        self.assertIn("neither", step_table.card_line(self.card))

    def test_no_step(self):
        self.trace.write_text("")
        self.assertEqual(step_table.steps_of(step_table.read(self.trace)), [])


if __name__ == "__main__":
    unittest.main()
