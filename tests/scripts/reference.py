# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""scripts/reference: which names of a header are public, which of them have no docstring, and the tables of
options; what Doxygen is given of headers and pages."""
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS / "reference"))
import markup
import options
import pages
import public
import skeleton

HEADER = """
namespace other { int elsewhere(); }
namespace cordee::inline CORDEE_ABI {
namespace detail::x {
struct hidden { int inside; };
template <class Form>
struct base {
  int bare = Form::value;  // an ordinary comment is none
  /// Documented.
  int written;
};
}  // namespace detail::x
/// Documented.
using alias = detail::x::base<int>;
using bare_alias = int;
/// Documented.
enum class color { red, green, /* no */ blue };
template <class T>
concept Bare = requires(T t) { { t.f() } -> std::same_as<int>; };
/// Documented.
template <class A, options With = options{1, 2}>
class widget : public list<A, limits{3}> {
 public:
  widget() = default;
  widget(const widget&) = delete;
  ~widget() {}
  explicit widget(A a) : a_{a}, b_(1) { if (a < 1) return; }
  double first = 60'000, second = 2;  ///< Documented, both.
  bool narrow = is_narrow<A, With>;  ///< Documented.
  std::string (*callback)(int) = nullptr;
  [[nodiscard]] A* begin() const
    requires(With.host)
  {
    return a_;
  }
  void check(int i) const requires requires(A a) { a.check(); } { a_.check(); }
  friend bool operator==(const widget&, const widget&) = default;
  template <class U>
  operator std::span<U>() const { return {}; }

 private:
  A a_;
  int b_;
};
template <class A>
widget(A) -> widget<A>;
struct declared_only;
inline constexpr auto text = "a { b ; /// c";
}  // namespace cordee::inline CORDEE_ABI
"""


class Names(unittest.TestCase):
    def test_finds_what_has_no_docstring(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "widget.hpp"
            path.write_text(HEADER)
            header = public.Header(path)
            names = list(public.public_names(header, public.shown_types([header])))
        bare = [public.label(d) for d in names if not d.docs]
        self.assertEqual(bare, ["base::bare", "bare_alias", "color::red", "color::green", "color::blue", "Bare",
                                "widget::widget", "widget::callback", "widget::begin", "widget::check",
                                "widget::operatorstd::span<U>", "text"])
        self.assertEqual([public.label(d) for d in names if d.docs],
                         ["base::written", "alias", "color", "widget", "widget::first", "widget::second", "widget::narrow"])
        self.assertEqual(HEADER.splitlines()[header.line(names[0].begin) - 1].split(";")[0], "  int bare = Form::value")


POLICY = """
namespace cordee::inline CORDEE_ABI {
namespace detail::x {
struct loose_form {
  static constexpr double epsilon = 0, unused = 3;
  static constexpr limits bounds{};
};
struct tight_form : loose_form {
  static constexpr limits bounds{.least = 0.5};
};
struct limits {
  double least = 0, most = std::numeric_limits<double>::infinity();
};
template <class Form>
struct base {
  static constexpr int slots = 1;
  /// Share that a step keeps (see base.hpp). Unit: 1. Range: 0 <= a | b < 1, else usage_error. Default: of You
  /// et al. 2017. Nothing more.
  double share = 0.9;
  double epsilon = Form::epsilon;
  limits bounds = Form::bounds;
  /// State: of the run.
  int step = 0;
  Model model;
  int rows, columns;
  explicit base(Model m, int row_count = size({1, 2}), int column_count)
      : model(m), rows(row_count), columns(column_count) {}
};
}  // namespace detail::x
using loose = detail::x::base<detail::x::loose_form>;
using tight = detail::x::base<detail::x::tight_form>;
}  // namespace cordee::inline CORDEE_ABI
"""


class Options(unittest.TestCase):
    def table(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "base.hpp"
            path.write_text(text)
            return options.table(options.Library([public.Header(path)]), ["loose", "tight"]).splitlines()[2:]

    def test_rows_have_the_defaults_of_each_form(self):
        self.assertEqual(self.table(POLICY), [
            "| **`loose`, `tight`** | | | | | | |",
            "| `share` | `double` | `0.9`: of You et al. 2017 | 1 | 0 <= a \\| b < 1 | usage_error | Share that a step keeps |",
            "| `epsilon` | `double` | `0` |  |  |  |  |",
            "| `bounds.least` | `double` | `0` (`loose`); `0.5` (`tight`) |  |  |  |  |",
            "| `bounds.most` | `double` | `infinity` |  |  |  |  |",
            "| `model` | `Model` | required |  |  |  |  |",
            "| `rows` | `int` | `size({1, 2})` |  |  |  |  |",
            "| `columns` | `int` | required |  |  |  |  |"])

    def test_rows_follow_a_default_that_changes(self):
        changed = set(self.table(POLICY.replace("share = 0.9", "share = 0.8"))) - set(self.table(POLICY))
        self.assertEqual(len(changed), 1)
        self.assertIn("`0.8`", changed.pop())

    def test_options_that_share_a_docstring_are_refused(self):
        shared = POLICY.replace("double share = 0.9;", "double share = 0.9, rest = 0.1;")
        with self.assertRaisesRegex(SystemExit, "share and rest share one docstring"):
            self.table(shared)


class Reference(unittest.TestCase):
    def test_headers_have_their_public_declarations_on_their_lines(self):
        top = "// SPDX\n// SPDX\n//\n// A widget of `alias`, 0 .. 9.\n//\n//   w <- w^(1 - e)   source\n#pragma once\n"
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "widget.hpp"
            path.write_text(top + HEADER)
            header = public.Header(path)
            text = skeleton.Skeleton(header, public.shown_types([header]), "x/widget.hpp", {"alias": "cordee::alias"}).text()
        lines = text.split("\n")
        self.assertEqual(lines[0], "/// @file x/widget.hpp")
        self.assertEqual(lines[3], '/// A widget of <code>@ref cordee::alias "alias"</code>, 0&nbsp;..&nbsp;9.')
        self.assertEqual(lines[5], '/// <pre class="equation">  w ← w<sup>1 - e</sup>       source</pre>')
        self.assertIn("struct alias : public detail::x::base<int> {};", text)
        for word in ("hidden", "elsewhere", "b_", "operator==", "declared_only", "requires(With", "return"):
            self.assertNotIn(word, text)
        number = (top + HEADER).split("\n").index("  std::string (*callback)(int) = nullptr;")
        self.assertIn("(*callback)(int) = nullptr;", lines[number])
        self.assertEqual(lines[number - 1].strip(), "bool narrow = is_narrow<A, With>; ///< Documented.")
        self.assertEqual(lines[number - 2].strip(), "/** Documented, both. */ double first = 60000; "
                                                    "/** Documented, both. */ double second = 2;")

    def test_pages_link_to_headings_and_name_links_that_lead_nowhere(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "docs").mkdir()
            (root / "README.md").write_text("# A\n\n[b, over\ntwo](docs/b.md#the-c-part) [gone](docs/gone.md)\n")
            (root / "docs/b.md").write_text("<!-- note -->\n# B\n\n## The `c` part\n\n[a](../README.md#no) `d' | e`\n")
            (root / "out").mkdir()
            site = pages.Site(root, root / "out", root / "out", markup.Markup({}))
            self.assertEqual(sorted(site.write(), reverse=True), ["docs/b.md:6: README.md has no heading #no",
                                                                  "README.md:3: docs/gone.md does not exist"])
            self.assertIn("[b, over\ntwo](@ref page_docs_b_the-c-part) gone", (root / "out/00_mainpage.md").read_text())
            self.assertIn("## The <code>c</code> part {#page_docs_b_the-c-part}", (root / "out/50_page_docs_b.md").read_text())

    def test_an_option_in_code_keeps_its_dashes(self):
        self.assertEqual(markup.Markup({}).code("train --epochs 3"), "<code>train \\--epochs 3</code>")

    def test_a_comma_behind_an_exception_is_not_of_its_name(self):
        self.assertEqual(markup.Markup({}).prose("@throws usage_error, as check()."), "@throws usage_error as check().")


if __name__ == "__main__":
    unittest.main()
