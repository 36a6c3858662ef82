// Errors are sentences for a person: who complains, what was wanted, what was found, what to do.
// The library throws and never exits; the program turns an Error into exit code 1 and a
// RequestError into exit code 2.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace norma {

/// Something failed at run time.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What was asked for cannot be right: a wrong shape, an unknown name, a value out of range.
class RequestError : public Error {
 public:
  using Error::Error;
};

/// "rms_norm: gain must be (C) with C = 768, got (512)."
class ShapeError : public RequestError {
 public:
  ShapeError(std::string_view op,
             std::string_view what,
             std::string_view wanted,
             std::string_view got);
};

/// More bytes were asked for than there are.
class MemoryError : public Error {
 public:
  using Error::Error;
};

}  // namespace norma
