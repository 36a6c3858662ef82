// SIGINT and SIGTERM ask a long job to stop at the next good moment; a second one ends it at once.
#pragma once

namespace norma {

/// From here on the first signal is only noted.
void watch_stop_signals();
/// The number of the signal that came, or 0.
int stop_signal();
/// For tests and for jobs run one after another in one process.
void forget_stop_signal();

}  // namespace norma
