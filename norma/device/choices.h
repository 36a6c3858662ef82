// What was found to be the fastest way to do something on this machine, by name. A choice that was
// timed may come out otherwise the next time, and the last bits of a result depend on it; so
// whoever runs keeps the choices in a file, and a run that is repeated or resumed makes the same.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace norma::device {

/// The choice of this name, if there is one. Names and choices hold no tab and no line end.
std::optional<std::string> choice(const std::string& name);
void choose(const std::string& name, const std::string& what);

/// Grows with every choose() and every choice that is added: whoever keeps them sees whether there
/// is something new.
std::size_t choices_made();

/// All of them, a line each: name, tab, choice. Sorted by name.
std::string choices_text();
/// Those of a text, and ours where it has none, in the same form.
std::string choices_with(std::string_view text);
/// Adds those of a text; what is already chosen stays, lines of another form are left out.
void add_choices(std::string_view text);

}  // namespace norma::device
